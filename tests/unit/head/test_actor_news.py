"""When a process hears that an actor lives, it already knows the resources that the actor holds."""

from __future__ import annotations

from typing import Any

from tests.world.clock import ManualClock
from tests.world.head import make_head

from phalanx.head.actors.table import ActorRecord
from phalanx.model.lifecycle import DEAD
from phalanx.protocol.actor_messages import ActorPlaced
from phalanx.protocol.bundle_messages import BundleInventory
from phalanx.protocol.cluster_messages import Via, View, ViewRow
from phalanx.protocol.frames import decode_body, encode_body
from phalanx.protocol.membership_messages import Join, Leave
from phalanx.protocol.node_messages import ActorReady, ActorUpdate
from phalanx.protocol.report_messages import NodeReport

NODES = {"6e" * 28: b"node-a", "6f" * 28: b"node-b"}
OWNER = b"node-a" + bytes(6) + b"\0\0\0\1"
WORKER = b"node-b" + bytes(6) + b"\0\0\0\1"


def test_the_view_of_its_node_comes_before_the_news_of_the_actor():
    sent: list[tuple[bytes, Any]] = []
    head = make_head(lambda to, message: sent.append((to, message)), ManualClock(10.0))
    for node_id, prefix in NODES.items():
        cpus = {"CPU": 4.0 if prefix == b"node-b" else 0.0}
        row = ViewRow(node_id, prefix, "10.0.0.1", 7, "ALIVE", cpus, dict(cpus), labels={})
        head.on_message(prefix, Join(row, "host", 0, {}, BundleInventory([], {})))
    record = ActorRecord(
        actor=b"actor".ljust(16),
        owner=OWNER,
        job=b"\0\0\0\1",
        creation=b"",
        class_name="A",
        place={"CPU": 1.0},
        hold={"CPU": 1.0},
    )
    head.actor_table.register(record)
    head.actor_table.watch(record.actor, WORKER, 10.0)
    head.on_message(b"node-b", ActorPlaced(record.actor, 0, WORKER, 1))
    head.on_message(b"node-b", NodeReport(available={"CPU": 3.0}))
    sent.clear()
    head.on_message(b"node-b", Via(WORKER, encode_body([ActorReady(record.actor)])))
    view, *news = sent
    to, message = view
    assert to == b"node-a", "node-b knows what it has"
    assert isinstance(message, View)
    assert [row.available for row in message.rows] == [{"CPU": 3.0}]
    told = [(to, update) for to, via in news for update in decode_body(via.body)]
    assert [to for to, _ in told] == [b"node-a", b"node-b"]
    assert all(isinstance(u, ActorUpdate) and u.state == "ALIVE" for _, u in told)


def test_what_a_worker_made_ends_with_its_node():
    sent: list[tuple[bytes, Any]] = []
    head = make_head(lambda to, message: sent.append((to, message)), ManualClock(10.0))
    for node_id, prefix in NODES.items():
        row = ViewRow(
            node_id, prefix, "10.0.0.1", 7, "ALIVE", {"CPU": 4.0}, {"CPU": 4.0}, labels={}
        )
        head.on_message(prefix, Join(row, "host", 0, {}, BundleInventory([], {})))
    made = {}
    for name, is_detached in (("waits for its arguments", False), ("stays", True)):
        record = ActorRecord(
            actor=name.encode(),
            owner=WORKER,
            job=b"\0\0\0\1",
            creation=b"",
            class_name="A",
            place={},
            detached=is_detached,
        )
        made[name] = record
        head.actor_table.announce(record)
    head.on_message(b"node-b", Leave("it was asked to stop"))
    assert made["waits for its arguments"].state == DEAD
    assert "its owner has died" in made["waits for its arguments"].reason
    assert made["stays"].state != DEAD
