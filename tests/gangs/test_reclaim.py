"""Queues take back from each other at the control store: what comes to rest, and how."""

from __future__ import annotations

import pytest

from phalanx.engines.embedded.head.shell import ControlShell
from phalanx.protocol.cluster_messages import (
    Ask,
    BundlesGone,
    CommitBundles,
    Committed,
    GiveBackBundles,
    NodeReport,
    PrepareBundles,
    Prepared,
    ViewRow,
)

PREFIX = bytes(6)
ROUNDS = 60


class World:
    """A head with one node, which does at once what it is told. The test moves the clock."""

    def __init__(self, cpus):
        self.now = 100.0
        self.total = {"CPU": float(cpus)}
        self.held = {}
        self.preempted = []
        self.box = []
        self.shell = ControlShell(
            lambda prefix, message: self.box.append(message),
            is_alone=True,
            clock=lambda: self.now,
            wall=lambda: self.now,
        )
        row = ViewRow("n0", PREFIX, "", 0, "ALIVE", self.total, dict(self.total), labels={})
        self.shell.join_alone(row)
        self.report()

    def ask(self, method, **fields):
        self.shell.batch.answer(Ask(0, bytes(16), f"batch.{method}", fields), print)

    def queue(self, name, weight=1, **quotas):
        self.ask("create_queue", name=name, fields={"weight": weight, **quotas})

    def gang(self, name, queue, members, cpus):
        self.ask(
            "create_gang",
            group=name.encode().ljust(18),
            name=name,
            queue=queue,
            needs=[{"CPU": float(cpus)}] * members,
            least=members,
        )

    def report(self):
        free = self.total["CPU"] - sum(self.held.values())
        self.shell.on_message(PREFIX, NodeReport(available={"CPU": free}))

    def rounds(self, count=ROUNDS):
        for _ in range(count):
            self.now += 1.0
            self.shell.on_round(self.now)
            while self.box:
                self.node_does(self.box.pop(0))
            self.report()

    def node_does(self, message):
        group = getattr(message, "group", b"")
        match message:
            case PrepareBundles():
                for index, bundle in message.bundles.items():
                    self.held[group, index] = bundle["CPU"]
                devices = {index: {} for index in message.bundles}
                answer = Prepared(group, message.attempt, True, devices, [])
            case CommitBundles():
                answer = Committed(group, message.attempt, True)
            case GiveBackBundles():
                for index in message.indexes:
                    self.held.pop((group, index), None)
                self.preempted += [group.decode().strip()] * message.warn
                answer = BundlesGone(group, message.attempt)
            case _:
                return
        self.shell.on_message(PREFIX, answer)

    def running(self):
        return sorted({group.decode().strip() for group, _ in self.held})


def test_two_queues_that_each_want_more_than_their_half_do_not_take_turns():
    world = World(cpus=4)
    world.queue("a")
    world.queue("b")
    world.gang("first", "a", members=2, cpus=2)
    world.rounds(5)
    world.gang("second", "b", members=2, cpus=2)
    world.rounds()
    assert (world.running(), world.preempted) == (["first"], [])


def test_who_is_evicted_waits_until_the_other_has_started():
    world = World(cpus=8)
    world.queue("small", weight=1)
    world.queue("large", weight=5)
    world.gang("borrower", "small", members=1, cpus=3)
    world.rounds(5)
    world.gang("owner", "large", members=2, cpus=3)
    world.rounds()
    assert (world.running(), world.preempted) == (["owner"], ["borrower"])


@pytest.mark.parametrize("mine", [1, 2])
def test_a_queue_keeps_what_it_deserves(mine):
    world = World(cpus=4)
    world.queue("a")
    world.queue("b")
    world.gang("first", "a", members=1, cpus=mine)
    world.rounds(5)
    world.gang("second", "b", members=1, cpus=4)
    world.rounds()
    assert (world.running(), world.preempted) == (["first"], [])


def test_what_was_lent_is_taken_back():
    world = World(cpus=4)
    world.queue("a")
    world.queue("b")
    world.gang("first", "a", members=1, cpus=4)
    world.rounds(5)
    world.gang("second", "b", members=1, cpus=2)
    world.rounds()
    assert (world.running(), world.preempted) == (["second"], ["first"])
