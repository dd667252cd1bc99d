"""The head gathers listings from its own tables and from nodes. A node may not answer."""

from __future__ import annotations

from typing import Any

import pytest
from tests.world.clock import ManualClock
from tests.world.head import ask, make_head

from phalanx.errors import StateQueryError
from phalanx.head.actors.table import ActorRecord
from phalanx.head.state_queries import MAX_ROUNDS
from phalanx.observe.state.query import StatePart, StateQuery
from phalanx.protocol.bundle_messages import BundleInventory
from phalanx.protocol.cluster_messages import ViewRow
from phalanx.protocol.membership_messages import Join
from phalanx.protocol.report_messages import GatherState, StateReported
from phalanx.protocol.requests.actors import ActorSpec, RegisterActor
from phalanx.protocol.requests.request import Asker, Role, encode_request
from phalanx.protocol.requests.state import QueryState

NODES = {"6e" * 28: b"nodea-", "6f" * 28: b"nodeb-"}


class World:
    def __init__(self) -> None:
        self.clock = ManualClock(100.0)
        self.box: list[tuple[bytes, Any]] = []
        self.answers: list[Any] = []
        self.control = make_head(lambda *sent: self.box.append(sent), self.clock)
        for node_id, prefix in NODES.items():
            total = {"CPU": 1.0}
            row = ViewRow(node_id, prefix, "10.0.0.1", 7, "ALIVE", total, dict(total), labels={})
            self.hear(prefix, Join(row, "host", 0, {}, BundleInventory([], {})))
        self.box.clear()

    def hear(self, prefix, message):
        self.control.on_message(prefix, message)

    def query(self, kind="tasks", role=Role.VISITOR, **options):
        def send(result, error):
            self.answers.append((result, error))

        request = QueryState(StateQuery(kind, **options))
        asker: Asker[Any] = Asker(role, b"", send)
        handlers = self.control.answering.handlers_of(request.kind)
        handlers.answer(request.kind, encode_request(request), asker)

    def asked(self):
        return {prefix: m for prefix, m in self.box if isinstance(m, GatherState)}

    def answer(self):
        from phalanx.protocol.requests.request import read_result

        ((result, error),) = self.answers
        return read_result(QueryState, result, error)


def row(number, node=b"nodea-"):
    return {
        "task_id": f"{number:048x}",
        "attempt_number": 0,
        "state": "RUNNING",
        "node_id": node.hex(),
    }


def test_all_nodes_are_asked_and_their_rows_come_together():
    world = World()
    world.query(timeout_s=10.0)
    asked = world.asked()
    assert set(asked) == set(NODES.values())
    assert {message.within_s for message in asked.values()} == {8.0}
    assert {message.ip for message in asked.values()} == {"10.0.0.1"}
    for number, (prefix, message) in enumerate(asked.items()):
        assert world.answers == []
        part = StatePart([row(number, b"nodeb-")], 3, 1)
        world.hear(prefix, StateReported(message.number, part))
    found = world.answer()
    assert [one["task_id"][-1] for one in found.part.rows] == ["0", "1"]
    assert {one["node_id"] for one in found.part.rows} == {"6f" * 28}  # in full
    assert (found.part.total, found.part.matched, found.silent) == (6, 2, [])


def test_a_node_that_does_not_answer_is_named_and_the_others_rows_are_there():
    world = World()
    world.query(timeout_s=10.0)
    message = world.asked()[b"nodea-"]
    silent_process = StateReported(
        message.number, StatePart([row(1)], 1, 1), ["driver 7 of node x"]
    )
    world.hear(b"nodea-", silent_process)
    world.clock.time_s += 8.1
    world.control.on_tick(world.clock.time_s)
    found = world.answer()
    assert len(found.part.rows) == 1
    assert [one.split(":")[0] for one in found.silent] == [
        f"node {'6f' * 28} (host)",
        "driver 7 of node x",
    ]
    world.hear(b"nodeb-", StateReported(message.number, StatePart([row(2)], 1, 1)))  # too late


def test_a_node_that_is_away_is_named_at_once_and_a_dead_one_is_not_waited_for():
    world = World()
    world.control.on_lost(b"nodeb-")
    world.query(timeout_s=10.0)
    assert set(world.asked()) == {b"nodea-"}
    record = world.control.nodes.of_prefix(b"nodea-")
    assert record is not None
    world.control.nodes.leave(record.node_id, "it was stopped")
    found = world.answer()
    assert found.silent == [f"node {'6f' * 28} (host): it is not connected"]


def test_actors_are_listed_and_their_making_is_a_task():
    world = World()
    spec = ActorSpec(actor=b"a" * 12 + b"\0\0\0\1", class_name="A", place={"CPU": 1.0})
    ask(world.control, RegisterActor(spec, b"", []))
    world.query("actors", filters=[("class_name", "=", "a")])
    (found,) = world.answer().part.rows
    assert found["actor_id"] == spec.actor.hex()
    world.answers.clear()
    world.query("tasks", filters=[("type", "=", "ACTOR_CREATION_TASK")])
    for prefix, message in world.asked().items():
        world.hear(prefix, StateReported(message.number, StatePart([], 0, 0)))
    (making,) = world.answer().part.rows
    assert (making["name"], making["actor_id"]) == ("A.__init__", spec.actor.hex())


ACTOR, WORKER = b"a" * 12 + b"\0\0\0\1", b"nodea-" + b"\0" * 10
ENDS = {
    "killed": lambda table: table.kill(ACTOR, True),
    "without handles": lambda table: (
        table.unreferenced(ACTOR), table.worker_died(ACTOR, WORKER, "as asked")
    ),
    "by its own will": lambda table: (
        table.leaving(ACTOR, "exit_actor"), table.worker_died(ACTOR, WORKER, "as asked")
    ),
    "crashed": lambda table: table.worker_died(ACTOR, WORKER, "signal 9"),
    "with its node": lambda table: table.node_gone(table.get(ACTOR).node, "lost"),
    "with its owner": lambda table: table.process_gone(b"owner"),
}  # fmt: skip


def making_of(ends: list[str], *, is_made: bool, **fields: Any) -> str:
    """Return the state of an actor's creation in listings, after the actor has ended in these
    ways.
    """
    world = World()
    table = world.control.actor_table
    record = ActorRecord(
        actor=ACTOR, owner=b"owner", job=b"j", creation=b"c", class_name="A", **fields
    )
    table.register(record)
    table.sent(ACTOR, "6e" * 28)
    table.placed(ACTOR, WORKER)
    if is_made:
        table.ready(ACTOR, WORKER, 7)
    for end in ends:
        ENDS[end](table)
    (row,) = world.control.state._creations()
    return str(row["state"])


@pytest.mark.parametrize("end", ENDS)
def test_an_actor_that_was_used_and_ended_was_made_well(end):
    """Summaries used to count the constructor of such an actor as FAILED."""
    assert making_of([end], is_made=True) == "FINISHED"


@pytest.mark.parametrize("end", ENDS)
def test_an_actor_that_ended_before_its_constructor_was_not_made(end):
    assert making_of([end], is_made=False) == "FAILED"


def test_a_listing_knows_since_when_an_actor_lives():
    world = World()
    table = world.control.actor_table
    record = ActorRecord(
        actor=ACTOR, owner=b"owner", job=b"j", creation=b"c", class_name="A", max_restarts=1
    )

    def times() -> list[int | None]:
        world.answers.clear()
        world.query("actors", has_detail=True)
        [shown] = world.answer().part.rows
        return [shown["start_time_ms"], shown["end_time_ms"]]

    table.register(record)
    assert times() == [None, None]
    for begins in (200.0, 300.0):  # two lives
        table.placed(ACTOR, WORKER)
        world.clock.time_s = begins
        table.ready(ACTOR, WORKER, 7)
        world.clock.time_s += 50.0
        assert times() == [1000 * begins, None]
        table.worker_died(ACTOR, WORKER, "signal 9")
        if begins == 200.0:
            assert times() == [None, None], "it restarts"
    assert times() == [300_000, 350_000]


def test_each_life_of_an_actor_is_made_anew():
    assert making_of(["crashed"], is_made=True, max_restarts=1) == "PENDING_NODE_ASSIGNMENT"
    assert making_of(["crashed", "killed"], is_made=True, max_restarts=1) == "FAILED"


def test_nodes_groups_gangs_jobs_and_drivers_are_the_head_s_to_tell():
    for kind, count in (("nodes", 2), ("groups", 0), ("gangs", 0), ("jobs", 0), ("drivers", 0)):
        world = World()
        world.query(kind)
        assert world.answer().part.total == count
        assert world.asked() == {}


def test_what_cannot_be_asked_is_refused_and_so_are_too_many_at_once():
    world = World()
    world.query(filters=[("colour", "=", "red")])
    with pytest.raises(StateQueryError, match="colour"):
        world.answer()
    world.answers.clear()
    for _ in range(MAX_ROUNDS):
        world.query()
    assert world.answers == []
    world.query()
    with pytest.raises(StateQueryError, match="under way"):
        world.answer()
