"""A node answers listings from its own tables, and with what its processes have told it in time."""

from __future__ import annotations

from typing import Any

import pytest
from tests.fuzz.test_messages import ID, PREFIX, Place

from phalanx.model.ids import process_id, worker_id_of
from phalanx.node.process_history import KEEP_ENDED, ProcessHistory
from phalanx.observe.state.query import StatePart, StateQuery
from phalanx.observe.state.task_rows import finished_task_row
from phalanx.observe.task_journal import About, Run, encode_runs
from phalanx.protocol.node_messages import Events, GatherRows, RowsReported
from phalanx.protocol.report_messages import GatherState, StateReported


class World:
    """A node with a driver and a worker."""

    def __init__(self) -> None:
        self.place = Place()
        self.driver = self.place.process(1)
        self.worker = self.place.process(2, "worker")
        self.history = self.place.node.history
        self.history.began(self.driver.peer, "DRIVER", 11)
        self.history.began(self.worker.peer, "WORKER", 22)

    def gather(self, kind="tasks", within_s=5.0, **options):
        self.place.head.sent.clear()
        message = GatherState(7, StateQuery(kind, has_detail=True, **options), within_s, "10.0.0.1")
        self.place.node.on_message(self.place.head, message)

    def asked(self, peer):
        return [m for m in peer.sent if isinstance(m, GatherRows)]

    def tells(self, peer, rows):
        (message,) = self.asked(peer)
        part = StatePart(rows, len(rows), len(rows))
        self.place.node.on_message(peer, RowsReported(message.number, part))

    def ran(self, peer, *names):
        runs = [
            Run(n, name, "FINISHED", 1.0, 2.0, self.worker.peer, 0, About())
            for n, name in enumerate(names)
        ]
        self.place.node.on_message(peer, Events(len(runs), encode_runs(runs)))

    def report(self):
        (found,) = [m for m in self.place.head.sent if isinstance(m, StateReported)]
        return found

    def names(self):
        return sorted(row["name"] for row in self.report().part.rows)


@pytest.fixture
def world():
    return World()


def test_processes_are_asked_and_their_rows_are_made_whole(world):
    world.gather()
    row = {"task_id": "1", "name": "f", "state": "RUNNING", "attempt_number": 0}
    row |= {"worker_id": worker_id_of(world.worker.peer), "node_id": PREFIX.hex()}
    world.tells(world.driver, [row])
    assert not [m for m in world.place.head.sent if isinstance(m, StateReported)]
    world.tells(world.worker, [])
    (found,) = world.report().part.rows
    assert (found["worker_pid"], found["node_id"]) == (22, ID)
    assert world.report().pids[worker_id_of(world.worker.peer)] == 22


def test_what_workers_have_finished_their_node_tells(world):
    world.ran(world.worker, "child")
    world.gather()
    world.tells(world.driver, [])
    world.tells(world.worker, [])
    assert world.names() == ["child"]


def test_what_a_worker_tells_in_an_answer_and_again_meanwhile_is_listed_once(world):
    world.gather()
    own = finished_task_row(
        world.worker.peer, Run(0, "child", "FINISHED", 1.0, 2.0, world.worker.peer, 0)
    )
    world.tells(world.worker, [own])
    world.ran(world.worker, "child", "another, since")
    world.tells(world.driver, [])
    assert world.names() == ["child"], "as things were when it answered"


def test_a_driver_tells_its_own_and_its_node_what_it_knows_while_it_is_silent(world):
    world.ran(world.driver, "of the driver")
    world.gather()
    world.tells(world.driver, [])
    world.tells(world.worker, [])
    assert world.names() == []
    world.driver.sent.clear()
    world.worker.sent.clear()
    world.gather(within_s=5.0)
    world.tells(world.worker, [])
    world.place.now += 4.1
    world.place.node.on_tick(world.place.now)
    assert world.names() == ["of the driver"]
    assert world.report().silent == [f"driver 11 of node {ID}"]


def test_a_driver_that_ends_is_not_waited_for(world):
    world.ran(world.driver, "of the driver")
    world.gather()
    world.tells(world.worker, [])
    world.place.node.on_lost(world.driver)
    assert world.names() == ["of the driver"]
    assert world.report().silent == []


def test_processes_are_listed_those_that_have_ended_too(world):
    world.place.node.on_lost(world.driver)
    world.gather("workers")
    worker, driver = world.report().part.rows
    assert (worker["is_alive"], worker["pid"], worker["ip"]) == (True, 22, "10.0.0.1")
    assert (driver["is_alive"], driver["worker_type"]) == (False, "DRIVER")
    assert driver["exit_type"] == "INTENDED_USER_EXIT"


def test_a_stranger_s_answer_is_dropped(world):
    number = 1
    other: Any = world.place.process(9)
    world.place.node.on_message(other, RowsReported(number, StatePart([{"task_id": "1"}], 1, 1)))
    world.gather()
    assert world.asked(other)


def test_of_processes_that_have_ended_the_latest_are_known():
    history = ProcessHistory(lambda: 5.0)
    ids = [process_id(PREFIX, n.to_bytes(6, "big"), bytes(4)) for n in range(KEEP_ENDED + 1)]
    for one in ids:
        history.began(one, "WORKER", 1)
        history.ended(one, "CRASHED", "why")
    assert len(history.all()) == KEEP_ENDED
    assert history.get(ids[0]) is None
    history.ended(b"never there", "CRASHED", "why")
    assert len(history.all()) == KEEP_ENDED
