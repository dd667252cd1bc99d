"""Connections that ended: which side dials again, the messages that each side sends first, and
requests that are repeated.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from phalanx.objects.reference import make_ref
from phalanx.owner.objects.lending import Lending
from phalanx.owner.peers.reconnection import Reconnection
from phalanx.owner.peers.redialling import BORROWER_DIALS_S
from phalanx.protocol.handshake import Status
from phalanx.protocol.messages import PROTOCOL_VERSION, Hello

ME, OTHER = b"nodeaa" + b"m" * 10, b"nodebb" + b"o" * 10


class End:
    """One end of a connection to the other process."""

    def __init__(self, is_dialling=False, status=0):
        self.peer = OTHER
        self.is_dialling, self.refusal_status, self.refusal = is_dialling, status, "why"
        self.posted = []

    def post(self, message):
        self.posted.append(message)

    send = post

    def unsent(self):
        return []


class Process:
    """A process that sends the text "again" in place of the list of references that it holds."""

    is_closed = False

    def __init__(self):
        self.now = 0.0
        self.dials = 0
        self.gone: list[bytes] = []
        self.dropped: list[Any] = []
        self.wants = False
        self.now_peer, self.is_adopted = None, False
        self.lending = Lending()
        self.ref = make_ref(ME, 1)
        self.lending.exported[1] = self.ref
        references: Any = SimpleNamespace(
            lending=self.lending,
            holds_of=lambda process: self.wants,
            process_gone=lambda process: None,
            declare_holds=lambda connection: connection.post("again"),
        )
        objects: Any = SimpleNamespace(
            wants_of=lambda process: False,
            process_gone=lambda process, why="": self.gone.append(process),
            ask_again=lambda connection: None,
        )
        peers: Any = self
        self.reconnection = Reconnection(
            ME,
            "driver",
            peers,
            self,
            references,
            objects,
            clock=lambda: self.now,
            drop=self.drop,
            request_tick=lambda: None,
        )

    # ---- Peers and Outbox

    def known(self, process):
        return self.now_peer

    def is_here(self, process):
        return process[:6] == ME[:6]

    def is_on_dead_node(self, process):
        return False

    def peer(self, process):
        self.dials += 1

    def post(self, connection, message):
        connection.post(message)

    def flush_later(self, connection):
        pass

    def adopt(self, connection):
        if self.now_peer is None:
            self.now_peer, self.is_adopted = connection, True
        return self.now_peer is connection

    def was_made_by(self, process):
        return self.is_adopted

    # ----

    def drop(self, connection):
        self.dropped.append(connection)
        self.now_peer = None
        self.reconnection.ended(connection)


def ours(again):
    """Return the first messages of this process."""
    return Hello(PROTOCOL_VERSION, ME, "driver", 0, again)


def hello(again):
    return Hello(PROTOCOL_VERSION, OTHER, "worker", 0, again)


@pytest.fixture
def process():
    return Process()


@pytest.mark.parametrize(
    ("lent", "wants", "end", "what"),
    [
        (True, False, End(), "dials late"),
        (False, True, End(), "dials soon"),
        (True, True, End(), "dials soon"),
        (False, False, End(), "nothing"),
        (True, False, End(True, Status.UNREACHABLE), "dials soon"),
        (True, True, End(True, Status.NO_PROCESS), "gone"),
    ],
)
def test_who_has_something_to_lose_dials_again(process, lent, wants, end, what):
    process.wants = wants
    if lent:
        process.lending.add(1, OTHER)
    process.reconnection.ended(end)
    process.reconnection.tick(BORROWER_DIALS_S / 2)
    assert bool(process.dials) == (what == "dials soon")
    process.reconnection.tick(BORROWER_DIALS_S)
    assert bool(process.dials) == what.startswith("dials")
    assert process.gone == ([OTHER] if what == "gone" else [])


def test_the_next_connection_begins_with_what_is_held_and_only_that_one(process):
    process.wants = True
    process.reconnection.ended(End())
    first, second = End(), End()
    process.reconnection.dialled(first)
    process.reconnection.dialled(second)
    assert (first.posted, second.posted) == ([ours(True), "again"], [ours(False)])


def test_who_says_that_the_connection_had_ended_is_believed(process):
    before, after = End(), End()
    process.now_peer = before
    process.lending.add(1, OTHER)
    process.reconnection.introduced(after, hello(again=True))
    assert (process.dropped, process.now_peer) == ([before], after)
    assert after.posted == ["again"]
    assert process.lending.unsure() == [OTHER]


def test_a_connection_that_is_being_made_stays_when_the_other_side_is_quicker(process):
    process.now_peer = ours = End(is_dialling=True)
    process.reconnection.introduced(End(), hello(again=True))
    assert (process.dropped, process.now_peer, ours.posted) == ([], ours, [])


def test_who_asks_over_the_connection_that_there_is_hears_what_is_held(process):
    process.now_peer = end = End()
    process.reconnection.introduced(end, hello(again=True))
    assert (process.dropped, end.posted) == ([], ["again"])


def test_a_borrower_that_forgot_the_connection_before_is_asked(process):
    process.lending.add(1, OTHER)
    process.reconnection.ended(End())
    end = End()
    process.reconnection.introduced(end, hello(again=False))
    assert [m for m in end.posted if isinstance(m, Hello)] == [ours(True)]


def test_a_borrower_that_says_nothing_is_asked_again_until_it_does(process):
    process.lending.add(1, OTHER)
    process.lending.connection_lost(OTHER)
    process.now_peer = end = End()
    for look in range(1, 4):
        process.reconnection.tick(look * BORROWER_DIALS_S)
        assert len(end.posted) == look - 1, "the first look gives it time"
    process.lending.declare(OTHER, [])
    process.reconnection.tick(4 * BORROWER_DIALS_S)
    assert len(end.posted) == 2


def test_a_borrower_that_says_nothing_and_is_not_connected_is_dialled(process):
    process.lending.add(1, OTHER)
    process.lending.connection_lost(OTHER)
    for look in range(1, 4):
        process.reconnection.tick(look * BORROWER_DIALS_S)
    assert process.dials == 1
    end = End()
    process.reconnection.dialled(end)
    assert end.posted == [ours(True), "again"]


@pytest.mark.parametrize("is_theirs", [True, False])
def test_a_second_connection_of_theirs_says_that_their_first_has_ended(process, is_theirs):
    first, second = End(), End()
    if is_theirs:
        process.reconnection.introduced(first, hello(again=False))
    else:
        process.now_peer = first
    process.reconnection.introduced(second, hello(again=False))
    assert process.dropped == ([first] if is_theirs else [])
    assert process.now_peer is (second if is_theirs else first)
