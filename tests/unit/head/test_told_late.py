"""Answers and news that arrive late, twice or never. These cases were found by simulated
clusters.
"""

from __future__ import annotations

from typing import Any

from tests.world.clock import ManualClock
from tests.world.head import make_head

from phalanx.head.actors.table import ActorRecord
from phalanx.model.lifecycle import ALIVE, DEAD, PENDING_CREATION
from phalanx.owner.actors.client import ActorClient
from phalanx.owner.actors.clients import ASK_AGAIN_S, ActorClients
from phalanx.protocol.actor_messages import (
    ActorLost,
    ActorPlaced,
    ActorRefused,
    EndActor,
    PlaceActor,
)
from phalanx.protocol.bundle_messages import BundleInventory
from phalanx.protocol.cluster_messages import Via, ViewRow
from phalanx.protocol.frames import encode_body
from phalanx.protocol.membership_messages import Expelled, Join
from phalanx.protocol.node_messages import ActorReady
from phalanx.protocol.report_messages import NodeReport
from phalanx.scheduler.devices.sets import ResourceSet
from phalanx.scheduler.placement.bundles.room import Room
from phalanx.scheduler.placement.node_table import NodeState

amounts = ResourceSet.from_mapping


def test_what_others_overdrew_leaves_the_rest_of_a_node():
    node = NodeState(
        id="n1",
        total=amounts({"CPU": 1, "disk": 2}),
        available=amounts({"disk": 2}) - amounts({"CPU": 1}),
        load=amounts({}),
    )
    room = Room(node, frozenset(), exact_devices=True)
    assert room.add(amounts({"disk": 1}))
    assert not room.add(amounts({"CPU": 1}))


class Waiting(ActorClient):
    """A client with a call that has not been sent."""

    @property
    def pending(self):
        return 1


def test_who_waits_for_an_actor_asks_again():
    asked: list[Any] = []
    unused: Any = None
    clients = ActorClients(unused, asked.append, unused)
    client = clients.known[b"actor"] = Waiting(b"actor", unused)
    clients.tick(100.0)
    clients.tick(100.0 + ASK_AGAIN_S / 2)
    assert asked == []  # its news may well be on their way
    clients.tick(100.0 + ASK_AGAIN_S)
    assert asked == [b"actor"]
    connection: Any = object()
    client.state, client.connection = ALIVE, connection
    clients.tick(100.0 + 2 * ASK_AGAIN_S)
    assert asked == [b"actor"]


def test_the_end_of_an_actors_former_process_leaves_it_in_the_line():
    """The actor still waits, on a full node. When another node has a free CPU, the actor goes
    there.
    """
    sent, now = [], 10.0
    head = make_head(lambda to, message: sent.append((to, message)), ManualClock(now))
    for name in (b"node-a", b"node-b"):
        row = ViewRow(name.hex(), name, "h", 1, "ALIVE", {"CPU": 1.0}, {"CPU": 0.0}, labels={})
        head.on_message(name, Join(row, "", 0, {}, BundleInventory([], {})))
    driver, former = b"node-a".ljust(16, b"d"), b"node-b".ljust(16, b"w")
    one = {"CPU": 1.0}
    record = ActorRecord(
        actor=b"actor", owner=driver, job=driver[12:], creation=b"", class_name="A", place=one
    )
    head.actor_table.register(record)
    head.on_message(b"node-b", ActorLost(b"actor", former, "it is not wanted", False))
    (first,) = [to for to, message in sent if isinstance(message, PlaceActor)]
    other = next(name for name in (b"node-a", b"node-b") if name != first)
    head.on_message(other, NodeReport(available=one))
    head.on_tick(now)
    assert [to for to, message in sent if isinstance(message, PlaceActor)] == [first, other]


def test_what_an_earlier_order_made_is_not_taken_for_a_later_one_to_the_same_node():
    """The head orders a node to make an actor, then orders another node, then the first node again.
    If the last order was not written, the next head knows only the one in between. It would then
    take the process that the first node made for the actor's current incarnation, although callers
    had been told of another process.
    """
    sent, now = [], 10.0
    head = make_head(lambda to, message: sent.append((to, message)), ManualClock(now))
    names = [b"node-a", b"node-b"]
    one = {"CPU": 1.0}
    for name in names:
        row = ViewRow(name.hex(), name, "h", 1, "ALIVE", one, {"CPU": 0.0}, labels={})
        head.on_message(name, Join(row, "", 0, {}, BundleInventory([], {})))

    def room_at(there):
        for name in names:
            head.on_message(name, NodeReport(available=one if name == there else {}))
        head.on_tick(now)

    def orders():
        return [(to, m.incarnation) for to, m in sent if isinstance(m, PlaceActor)]

    driver = b"node-a".ljust(16, b"d")
    record = ActorRecord(
        actor=b"actor", owner=driver, job=driver[12:], creation=b"", class_name="A", place=one,
        max_restarts=1,
    )  # fmt: skip
    head.actor_table.register(record)
    [(first, _)] = orders()
    other = next(name for name in names if name != first)
    room_at(other)
    room_at(first)
    assert [to for to, _ in orders()] == [first, other, first]
    early, late = first.ljust(16, b"e"), first.ljust(16, b"l")
    for worker, (_, incarnation) in ((early, orders()[0]), (late, orders()[-1])):
        head.on_message(first, ActorPlaced(b"actor", incarnation, worker, 1))
        head.on_message(first, Via(worker, encode_body([ActorReady(b"actor")])))
    assert [m.worker for _, m in sent if isinstance(m, EndActor)] == [early]
    assert (record.state, record.worker) == (ALIVE, late)
    head.on_message(first, ActorLost(b"actor", late, "it crashed", False))
    lived = [m.lived_before for _, m in sent if isinstance(m, PlaceActor)]
    assert lived == [False, False, False, True], "who only waited has not been restarted"


FULL = "its node runs 3 actors, as many as its limit of open files allows (ulimit -n)"


def test_an_actor_that_a_full_node_refuses_goes_to_another_one():
    sent, now = [], 10.0
    head = make_head(lambda to, message: sent.append((to, message)), ManualClock(now))
    names = [b"node-a", b"node-b", b"node-c"]
    one = {"CPU": 1.0}
    for name in names:
        labels = {"ray.io/node-id": name.hex()}
        row = ViewRow(name.hex(), name, "h", 1, "ALIVE", one, dict(one), labels=labels)
        head.on_message(name, Join(row, "", 0, {}, BundleInventory([], {})))
        head.on_message(name, NodeReport(available=one))
    driver = b"node-a".ljust(16, b"d")
    record = ActorRecord(
        actor=b"actor", owner=driver, job=driver[12:], creation=b"", class_name="A", place=one
    )
    head.actor_table.register(record)
    asked = []
    for _ in names:
        asked = [to for to, message in sent if isinstance(message, PlaceActor)]
        assert record.state == PENDING_CREATION
        head.on_message(asked[-1], ActorRefused(b"actor", FULL, "actor_unschedulable"))
        head.on_message(asked[0], ActorRefused(b"actor", FULL, "actor_unschedulable"))  # late
    assert sorted(asked) == names
    assert (record.state, FULL in record.reason) == (DEAD, True)


def test_an_actor_that_is_bound_to_a_full_node_fails():
    sent = []
    head = make_head(lambda to, message: sent.append((to, message)), ManualClock(10.0))
    one = {"CPU": 1.0}
    for name in (b"node-a", b"node-b"):
        row = ViewRow(name.hex(), name, "h", 1, "ALIVE", one, dict(one), labels={})
        head.on_message(name, Join(row, "", 0, {}, BundleInventory([], {})))
        head.on_message(name, NodeReport(available=one))
    driver = b"node-a".ljust(16, b"d")
    record = ActorRecord(
        actor=b"actor", owner=driver, job=driver[12:], creation=b"", class_name="A", place=one,
        strategy={"node_id": b"node-b".hex(), "soft": False},
    )  # fmt: skip
    head.actor_table.register(record)
    head.on_message(b"node-b", ActorRefused(b"actor", FULL, "actor_unschedulable"))
    assert record.state == DEAD


def test_a_node_that_an_earlier_head_gave_up_stays_dead():
    """The earlier head could not write the node's death to the store, but other nodes have acted on
    it.
    """
    sent = []
    head = make_head(lambda to, message: sent.append((to, message)), ManualClock(10.0))
    for name, given_up in ((b"node-a", []), (b"node-b", [b"node-a", b"node-b", b"node-x"])):
        row = ViewRow(name.hex(), name, "h", 1, "ALIVE", {}, {}, labels={})
        head.on_message(name, Join(row, "", 0, {}, BundleInventory([], {}), "", given_up))
    assert [to for to, message in sent if isinstance(message, Expelled)] == [b"node-a"]
    assert not head.nodes.is_alive(b"node-a".hex())
    assert head.nodes.is_alive(b"node-b".hex())
