"""Any message from any peer to a node, and to an owner: the message is handled, or its peer is
disconnected, and the work of others continues.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, get_args
from unittest.mock import Mock

import pytest
from tests.fuzz.running import try_out
from tests.fuzz.values import Known, Maker
from tests.fuzz.world import is_meant
from tests.principals import OWNER

from phalanx.model.exit_codes import NOT_STARTED
from phalanx.model.ids import GangId, GroupId, JobId, node_prefix, process_id
from phalanx.node.checks import NoChecks
from phalanx.node.cluster_node import cluster_node
from phalanx.node.devices import NoDeviceReading
from phalanx.node.directories import NoDirectories
from phalanx.node.effects import NodeEffects, NodeSetup
from phalanx.node.membership import MembershipOptions
from phalanx.node.options import SpillOptions
from phalanx.node.usage import NoUsageMeter
from phalanx.protocol.actor_messages import ActorRefused, PlaceActor
from phalanx.protocol.bundle_messages import PrepareBundles, Prepared, StartMember
from phalanx.protocol.frames import decode_body
from phalanx.protocol.membership_messages import Expelled, Joined, Reported
from phalanx.protocol.messages import PROTOCOL_VERSION, Message
from phalanx.protocol.node_messages import LeaseWanted
from phalanx.scheduler.devices.instances import NodeResources
from phalanx.scheduler.placement.placement_policy import PlacementPolicy

ID = "6e" * 28
PREFIX = node_prefix(ID)
MESSAGES = [kind for union in get_args(Message) for kind in (get_args(union) or (union,))]
IDS = [bytes(18), b"\x01" * 18, process_id(PREFIX, b"\x02" * 6, b"\x01\0\0\0")]
KNOWN: Known = {
    **{(name, bytes): IDS for name in ("group", "worker", "process", "actor", "owner")},
    ("strategy", dict[str, Any]): [{}, {"name": "SPREAD"}, {"group": IDS[0].hex(), "bundle": 0}],
    ("version", int): [PROTOCOL_VERSION],
    ("kind", str): ["driver", "worker", "node"],
}


class Peer:
    """The node's end of a connection. It records what the node sends."""

    def __init__(self) -> None:
        self.peer = b""
        self.tag: str | None = None
        self.principal = OWNER
        self.fileno, self.closed = 7, False
        self.sent: list[Any] = []

    def post(self, message: Any) -> None:
        self.sent.append(message)

    send = post


class Place:
    """A node whose processes, files and connections are not real."""

    def __init__(self) -> None:
        self.now = 100.0
        self.lost: list[Peer] = []
        self.internal_errors: list[Exception] = []
        self.head = Peer()
        numbers = iter(range(1 << 40))
        head = Mock()
        head.dial_head.return_value = self.head
        names = ("forks", "fork_server", "commands", "job_files", "logs", "transfers")
        outside = {name: Mock() for name in names}
        files = {name: Mock() for name in ("store_files", "spill_files")}
        files["store_files"].written_by.return_value = []
        files["store_files"].stat.return_value = (0.0, 10)
        outside["job_files"].make.return_value = "log"
        outside["job_files"].read.return_value = (b"", 0, 0)
        outside["job_files"].earlier_logs.return_value = []
        memory = Mock()
        memory.above.return_value = {}
        connections = Mock()
        connections.lose = self.lost.append
        connections.dial.side_effect = lambda *_: Peer()
        self.node = cluster_node(
            NodeSetup(node_id=ID, resources=NodeResources({"CPU": 2.0}), labels={}, address="head"),
            NodeEffects(
                clock=lambda: self.now,
                monotonic=lambda: self.now,
                wall=lambda: self.now,
                make_unique=lambda size: next(numbers).to_bytes(size, "big"),
                connections=connections,
                memory=memory,
                usage=NoUsageMeter(),
                read_machine=lambda: None,
                devices=NoDeviceReading(),
                checks=NoChecks(),
                directories=lambda store: NoDirectories(),
                is_port_free=lambda port: True,
                drain_output=lambda then: then(),
                know_addresses=lambda rows: None,
                sweep=lambda: None,
                look=lambda meter: None,
                report_defect=self.internal_errors.append,
                note=lambda text, **about: None,
                **outside,
                **files,
            ),
            MembershipOptions(heads=("head",), hostname="n"),
            head,
            SpillOptions(),
            random.Random(1),
        )
        self.node.membership.join("host", 1)
        self.node.on_message(self.head, Joined(1, PlacementPolicy()))

    def rounds(self, count: int = 3) -> None:
        for _ in range(count):
            self.now += 1.0
            self.node.on_tick(self.now)
            self.node.on_round()

    def process(self, number: int, tag: str = "driver") -> Peer:
        """Connect a process to this node; return the node's end of the connection."""
        peer = Peer()
        peer.peer, peer.tag = process_id(PREFIX, number.to_bytes(6, "big"), b"\x01\0\0\0"), tag
        self.node.peers.add(peer)
        return peer


Said = tuple[str, Any]
"""The kind of the sender, and the message."""
SPEAKERS = ["driver", "driver", "worker", "stranger", "head", "node"]


def draw(rng: random.Random) -> list[Said]:
    maker = Maker(rng, KNOWN)
    return [
        (rng.choice(SPEAKERS), maker.struct(rng.choice(MESSAGES), 0.3))
        for _ in range(rng.randint(1, 10))
    ]


def goes_on(said: list[Said]) -> None:
    place = Place()
    other_node = Peer()
    other_node.peer, other_node.tag = process_id(b"node-b", bytes(6), bytes(4)), "node"
    peers = {
        "driver": place.process(1), "worker": place.process(2, "worker"), "stranger": Peer(),
        "head": place.head, "node": other_node,
    }  # fmt: skip
    other = place.process(9)
    for speaker, message in said:
        if isinstance(message, SENT_TWICE):
            continue
        peer = peers[speaker]
        if peer in place.lost:
            continue
        try:
            place.node.on_message(peer, message)
        except Exception as error:
            if not is_meant(error) or speaker == "head":
                raise AssertionError(f"{speaker}: {message!r:.300}") from error
            place.lost.append(peer)  # as the loop around it does
        place.rounds(1)
    place.node.on_message(other, LeaseWanted(1, {"CPU": 1.0}, 1))
    place.rounds()
    assert other not in place.lost
    for defect in place.internal_errors:
        if not is_meant(defect):
            raise AssertionError(f"{said!r:.1000}") from defect


SENT_TWICE = (Expelled,)
"""The messages that the head sends to end a node. The test leaves them out."""


def test_a_node_goes_on() -> None:
    try_out(draw, goes_on, 150)


class Planted(Exception):
    """An unexpected error, which the test raises in a handler."""


ORDERS: list[tuple[Any, Callable[[Any], bool]]] = [
    (
        PrepareBundles(GroupId(bytes(18)), 1, {0: {"CPU": 1.0}}),
        lambda n: isinstance(n, Prepared) and not n.ok,
    ),
    (
        StartMember(GangId(GroupId(bytes(18))), 0, 1, JobId("j"), "m", [], [], {}, 1.0),
        lambda n: n.code == NOT_STARTED,
    ),
    (
        PlaceActor(bytes(16), 1, b"", b"", "", "", {"CPU": 1.0}, {}, b"", {}, 0),
        lambda n: isinstance(n, ActorRefused) and n.code != "",
    ),
]


@pytest.mark.parametrize(("order", "is_refused"), ORDERS)
def test_an_order_that_the_node_fails_at_is_refused_and_harms_no_other(
    order, is_refused, monkeypatch
):
    place = Place()
    handlers = place.node.from_head._handlers

    def fails(message: Any) -> None:
        raise Planted("a plank is loose")

    handlers[type(order)] = fails
    place.node.on_message(place.head, order)
    place.rounds(1)
    (error,) = place.internal_errors
    assert isinstance(error, Planted)
    assert place.lost == [], "the head stays"
    assert any(is_refused(one) for one in told(place))


def told(place: Place) -> list[Any]:
    """Return the messages in the reports that the node has sent to its head."""
    bodies = [one.body for one in place.head.sent if isinstance(one, Reported)]
    return [inner for body in bodies for inner in decode_body(body)]


@pytest.mark.parametrize("part", ["leases", "store", "groups", "members", "reports", "planner"])
def test_a_part_that_fails_at_every_tick_keeps_no_other_from_its_work(part, monkeypatch):
    place = Place()
    ticked: list[Any] = []
    monkeypatch.setattr(place.node.membership, "tick", ticked.append)

    def fails(now: float) -> None:
        raise Planted

    monkeypatch.setattr(getattr(place.node, part), "tick", fails)
    place.rounds(2)
    assert ticked
    assert {type(error) for error in place.internal_errors} == {Planted}
