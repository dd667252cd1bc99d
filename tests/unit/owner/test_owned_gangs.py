"""Gangs of tasks at their owner: they start together and end together."""

from __future__ import annotations

import msgspec
import pytest
from tests.unit.owner.small_world import World, template

from phalanx.protocol.asking import Ask, Reply
from phalanx.protocol.messages import Done, Failed
from phalanx.protocol.requests.gangs import EndMembers
from phalanx.protocol.requests.groups import WaitGroup
from phalanx.protocol.requests.request import decode_request


def encoded(result):
    return msgspec.Raw(msgspec.msgpack.encode(result))


class GangWorld(World):
    """A world whose node grants every gang its places."""

    def __init__(self, seed, **more):
        super().__init__(seed, **more)
        self.reports = []
        self.must_fail_first = False

    def _node_receives(self, owner):
        message = owner.node.queue[0]
        if not isinstance(message, Ask):
            super()._node_receives(owner)
            return
        owner.node.queue.popleft()
        if message.kind == WaitGroup.kind:
            self.to_owner[owner.process_id].post(Reply(message.token, encoded(True)))
        else:
            self.reports += decode_request(EndMembers, message.body).indexes

    def _work(self, worker):
        """Let a worker go on with its task. With `must_fail_first`, slow members do so only after
        the gang has failed.
        """
        is_slow = worker.running is not None and worker.running[1].name == "slow"
        if not (is_slow and self.must_fail_first and not self.reports):
            super()._work(worker)

    def outcome(self, worker, task, took):
        if task.name == "bad":
            return Failed(task.number, b"", 0.0, took)
        return Done(task.number, b"", 0.0, took)


def begin(world, *names, min_members):
    (owner,) = world.owners
    kinds = [template(name, 0) for name in names]
    kinds = [
        msgspec.structs.replace(
            kind, key=msgspec.structs.replace(kind.key, strategy=b'{"bundle":%d}' % index)
        )
        for index, kind in enumerate(kinds)
    ]
    tasks = owner.core.gangs.start(b"g", kinds, min_members, b"", None, None)
    owner.refs |= {task.number: task.refs[0] for task in tasks}
    return owner


@pytest.mark.parametrize("seed", range(20))
def test_results_of_members_that_ended_with_their_gang_come_too_late(seed):
    """In an earlier version the task table refused such results, and the owner closed the
    connection to the worker.
    """
    world = GangWorld(seed, cpus=3, owners=1)
    world.must_fail_first = True
    owner = begin(world, "slow", "bad", "slow", min_members=3)
    world.settle()
    assert list(owner.results.values()) == ["failed"] * 3
    assert len(world.runs) == 3
    assert sorted(world.reports) == [0, 1, 2]
    assert not owner.tasks.machine.pending
    assert not owner.tasks.machine.by_lease


@pytest.mark.parametrize("seed", range(5))
def test_as_many_may_fail_as_the_gang_can_spare(seed):
    world = GangWorld(seed, cpus=3, owners=1)
    owner = begin(world, "slow", "bad", "quick", min_members=2)
    world.settle()
    assert list(owner.results.values()) == ["done", "failed", "done"]
    assert sorted(world.reports) == [0, 1, 2]
