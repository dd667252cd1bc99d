"""A process that owns tasks and objects gets random messages: each message is handled, or its
sender is disconnected, and the process goes on.
"""

from __future__ import annotations

import contextlib
import io
import random
from typing import Any

import pytest
from tests.fuzz.running import try_out
from tests.fuzz.test_messages import MESSAGES
from tests.fuzz.values import Known, Maker
from tests.unit.owner.small_world import Owner, Wire, template

from phalanx.protocol.messages import Hello
from phalanx.protocol.node_messages import LeaseDue
from phalanx.runtime.driver.incoming import _NODE_ONLY, Incoming

ME, PEER, NODE = bytes([1] * 12 + [1, 0, 0, 0]), bytes([2] * 12 + [1, 0, 0, 0]), bytes(16)
KNOWN: Known = {
    **{(name, int): [0, 1, 2, 3] for name in ("number", "lease", "scheduling_class", "index")},
    ("numbers", list[int]): [[1], [2, 3]],
    ("process", bytes): [PEER, ME],
    ("worker", bytes): [PEER],
}


class Place:
    """The surroundings of an owner: nobody answers what the owner sends."""

    def __init__(self) -> None:
        self.files: set[str] = set()
        self.now = 100.0
        self.clock = lambda: self.now

    def connect(self, owner: Any, worker_id: bytes) -> Wire:
        return Peer(worker_id)


class Peer(Wire):
    """A connection without another end."""

    is_dialling = False
    refusal = ""
    refusal_status = 0

    def flush(self) -> None:
        pass

    def unsent(self) -> list[Any]:
        return []


def draw(rng: random.Random) -> list[tuple[bool, Any]]:
    maker = Maker(rng, KNOWN)
    of_peers = [kind for kind in MESSAGES if kind is not Hello]
    said = []
    for _ in range(rng.randint(1, 10)):
        is_nodes = rng.random() < 0.5
        kind = rng.choice(sorted(_NODE_ONLY, key=str) if is_nodes else of_peers)
        said.append((is_nodes, maker.struct(kind, 0.3)))
    return said


def goes_on(said: list[tuple[bool, Any]]) -> None:
    """Check that a forbidden message of a peer disconnects that peer only, and that messages of the
    node are handled.
    """
    owner = Owner(Place(), ME)
    owner.submit(template("f", 3))
    node: Any = owner.node
    peer: Any = Peer(PEER)
    dropped: list[Any] = []
    incoming = Incoming(
        owner.core, node, contextlib.nullcontext(), lambda connection, message: None, dropped.append
    )
    for is_nodes, message in said:
        if not is_nodes and dropped:
            continue
        shown = io.StringIO()
        with contextlib.redirect_stderr(shown):
            incoming.handle(node if is_nodes else peer, [message])
        if is_nodes and shown.getvalue():
            raise AssertionError(shown.getvalue())
    assert all(one is peer for one in dropped)
    owner.submit(template("f", 3))


def test_an_owner_goes_on() -> None:
    try_out(draw, goes_on, 150)


def test_a_message_of_the_node_that_fails_takes_no_other_along(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    owner = Owner(Place(), ME)
    taken: list[int] = []

    def handle(connection: Any, message: Any, now: float) -> bool:
        if message.lease == 1:
            raise KeyError("a plank is loose")
        taken.append(message.lease)
        return True

    monkeypatch.setattr(owner.core, "handle", handle)
    node: Any = owner.node
    incoming = Incoming(owner.core, node, contextlib.nullcontext(), lambda *_: None, lambda _: None)
    incoming.handle(node, [LeaseDue(number) for number in range(3)])
    assert taken == [0, 2]
