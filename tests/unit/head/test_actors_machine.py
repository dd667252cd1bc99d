"""Actors while nodes and workers die and the head restarts; hypothesis draws the events."""

from __future__ import annotations

import itertools

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.effort import examples
from tests.present import present

from phalanx.head.actors.table import ActorRecord, ActorTable
from phalanx.model.lifecycle import ALIVE, DEAD
from phalanx.protocol.actor_messages import ActorHere

AT = st.integers(0, 1_000)


class ActorsMachine(RuleBasedStateMachine):
    """Checks that no actor has two workers, none is restarted more often than declared, and each
    ends as alive or dead.
    """

    def __init__(self):
        super().__init__()
        self.workers = (b"w%d" % at for at in itertools.count())
        self.nodes = {}  # name -> {actor: worker, b"" while it waits for one}
        self.stored = {}
        self.count = 0
        self.table = ActorTable(self)

    @initialize()
    def two_nodes(self):
        self.join()
        self.join()

    # ---- effects

    def place_actor(self, record):
        """Place the actor on the node with the fewest actors."""
        node = min(self.nodes, key=lambda name: (len(self.nodes[name]), name))
        self.nodes[node][record.actor] = b""
        self.table.sent(record.actor, node)
        self.store(record)

    def restarts(self, record, is_crash):
        pass

    def withdraw_actor(self, record):
        self.nodes.get(record.node, {}).pop(record.actor, None)

    def end_worker(self, record, reason, force):
        has = self.nodes.get(record.node, {})
        if has.get(record.actor) == record.worker:
            del has[record.actor]
            self.table.worker_died(record.actor, record.worker, reason)

    def ending(self, record):
        self.store(record)

    def publish(self, record, watchers):
        self.store(record)

    def store(self, record):
        self.stored[record.actor] = self.table.row(record)

    # ---- what happens

    @rule()
    @precondition(lambda self: len(self.nodes) < 4)
    def join(self):
        self.count += 1
        self.nodes[f"n{self.count}"] = {}

    @rule(restarts=st.sampled_from([0, 1, 3, -1]))
    def register(self, restarts):
        self.count += 1
        self.table.register(
            ActorRecord(
                actor=b"a%d" % self.count,
                owner=b"o",
                job=b"j",
                creation=b"c",
                class_name="A",
                max_restarts=restarts,
            )
        )

    def some(self, at, *, waiting):
        found = [
            (node, actor)
            for node, has in self.nodes.items()
            for actor, worker in has.items()
            if (not worker) is waiting
        ]
        return found[at % len(found)] if found else (None, None)

    @rule(at=AT)
    def worker_is_found(self, at):
        node, actor = self.some(at, waiting=True)
        if node is None:
            return
        worker = self.nodes[node][actor] = next(self.workers)
        if self.table.placed(actor, worker, node):
            self.store(self.table.get(actor))
        else:
            del self.nodes[node][actor]

    @rule(at=AT)
    def constructor_returns(self, at):
        node, actor = self.some(at, waiting=False)
        if node is not None:
            record = present(self.table.get(actor))
            if record.state != ALIVE:
                self.table.ready(actor, self.nodes[node][actor], 1)

    @rule(at=AT)
    def worker_dies(self, at):
        node, actor = self.some(at, waiting=False)
        if node is not None:
            self.table.worker_died(actor, self.nodes[node].pop(actor), "signal SIGKILL")

    @rule(at=AT)
    @precondition(lambda self: len(self.nodes) > 1)
    def node_dies(self, at):
        name = list(self.nodes)[at % len(self.nodes)]
        del self.nodes[name]
        self.table.node_gone(name, "it did not report")

    @rule(at=AT)
    def leaves(self, at):
        """Let an actor exit on purpose. Its process lives on for a while."""
        if self.stored:
            self.table.leaving(list(self.stored)[at % len(self.stored)], "it left")

    @rule(at=AT, no_restart=st.booleans())
    def kill(self, at, no_restart):
        if self.stored:
            self.table.kill(list(self.stored)[at % len(self.stored)], no_restart)

    @rule(lost=st.booleans(), at=AT)
    def head_restarts(self, lost, at):
        """Restart the head. Meanwhile a node may lose one actor."""
        self.table = ActorTable(self)
        node, actor = self.some(at, waiting=False)
        if lost and node is not None:
            del self.nodes[node][actor]
        self.table.restore(list(self.stored.values()), 0.0)
        for name in list(self.nodes):
            self.join_again(name)

    @rule(at=AT)
    def node_joins_again(self, at):
        self.join_again(list(self.nodes)[at % len(self.nodes)])

    def join_again(self, name):
        here = {
            actor: ActorHere(worker, record.incarnation if record else 0)
            for actor, worker in self.nodes[name].items()
            for record in [self.table.get(actor)]
        }
        for actor in self.table.confirm(name, here):
            self.nodes[name].pop(actor, None)

    # ---- what holds

    @invariant()
    def one_place_for_each(self):
        places = [actor for has in self.nodes.values() for actor in has]
        assert len(places) == len(set(places))
        for record in self.table.all():
            has = self.nodes.get(record.node, {})
            if record.state != DEAD:
                assert has.get(record.actor) == record.worker
            else:
                assert record.actor not in places
                assert record.reason
            assert record.max_restarts < 0 or record.restarts <= record.max_restarts

    def teardown(self):
        """Check that in the end every actor that is not dead becomes alive."""
        while any(not worker for has in self.nodes.values() for worker in has.values()):
            self.worker_is_found(0)
        for at in range(len(self.stored)):
            self.constructor_returns(at)
        assert {record.state for record in self.table.all()} <= {ALIVE, DEAD}


TestActors = ActorsMachine.TestCase
TestActors.settings = settings(max_examples=examples(60), stateful_step_count=40)
