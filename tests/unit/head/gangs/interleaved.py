"""A head and two nodes whose messages arrive one by one, in any order that connections allow.

Messages of one connection stay in order, but each may be late: the head may give further orders
while a message of a node is on its way. Nothing counts as written before the store has written it.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable
from typing import Any

import msgspec
from tests.fuzz.world import NODES
from tests.unit.head.gangs.runs_world import Rows, Runs

from phalanx.model.principals import Principal
from phalanx.node.head_link import RemoteHeadLink
from phalanx.protocol.bundle_messages import BundleInventory
from phalanx.protocol.membership_messages import Acked, Expelled, Join, Joined


class SlowRows(Rows):
    """A store that writes the recorded changes, in order, only when the test says so."""

    def __init__(self) -> None:
        super().__init__()
        self.recorded: deque[tuple[dict[Any, Any], Callable[[], None] | None]] = deque()

    def record(self, changes: Any, durable: Any = None) -> None:
        self.recorded.append((changes, durable))

    def write(self) -> None:
        """Write all that is recorded so far."""
        for _ in range(len(self.recorded)):
            changes, durable = self.recorded.popleft()
            super().record(changes, durable)


class Wire:
    """A node's end of its connection to the head."""

    peer, tag = b"", None

    def __init__(self, up: deque[Any]) -> None:
        self._up = up

    @property
    def principal(self) -> Principal:
        raise NotImplementedError

    def post(self, message: Any) -> None:
        self._up.append(message)

    send = post


class Interleaved(Runs):
    """A head and two nodes. Each event is one message, one write, or some time that passes."""

    rows: SlowRows

    def __init__(self, seed: int = 0) -> None:
        self.order = random.Random(seed)
        self.up: dict[bytes, deque[Any]] = {prefix: deque() for prefix in NODES.values()}
        self.down: dict[bytes, deque[Any]] = {prefix: deque() for prefix in NODES.values()}
        self.links = {prefix: RemoteHeadLink() for prefix in NODES.values()}
        self.died: set[bytes] = set()
        """The nodes that the head has given up."""
        super().__init__()
        self.settle()

    # ---- the world's parts

    def begin(self) -> None:
        written = dict(getattr(self, "rows", Rows()).tables)
        self.rows = SlowRows()
        self.rows.tables.update(written)
        super().begin()

    def join(self, node_id: str, prefix: bytes) -> None:
        if prefix not in self.nodes:
            return
        node = self.nodes[prefix]
        self.links[prefix].disconnected()
        self.up[prefix].clear()
        self.down[prefix].clear()
        there = BundleInventory(*msgspec.structs.astuple(node.bundles.inventory()))
        row = self.row(node_id, prefix)
        self.up[prefix].append(Join(row, "host", self.epochs.get(prefix, 0), {}, there))

    def hand_up(self, prefix: bytes) -> None:
        """Let the head handle the next message of a node."""
        self._collect()
        if self.up[prefix]:
            self.hear(prefix, self.up[prefix].popleft())
            self._collect()

    def hand_down(self, prefix: bytes) -> None:
        """Let a node handle the next message of the head."""
        self._collect()
        if not self.down[prefix]:
            return
        message, link = self.down[prefix].popleft(), self.links[prefix]
        if isinstance(message, Joined):
            self.epochs[prefix] = message.epoch
            link.connected(Wire(self.up[prefix]))
        elif isinstance(message, Acked):
            link.acked(message)
        elif isinstance(message, Expelled):
            self._is_given_up(prefix)
        elif prefix in self.nodes:
            self.nodes[prefix].does(message)
        self._collect()

    def _is_given_up(self, prefix: bytes) -> None:
        """End a node that the head has declared dead, with all its commands."""
        self.died.add(prefix)
        self.held[prefix] = {}
        self.nodes.pop(prefix, None)

    def node_dies(self, prefix: bytes) -> None:
        self.died.add(prefix)
        super().node_dies(prefix)

    def _collect(self) -> None:
        """Put new messages on their connections."""
        box, self.box = self.box, []
        for prefix, message in box:
            if prefix in self.down:
                self.down[prefix].append(message)
        for prefix, node in self.nodes.items():
            node.settle()
            out, node.out[:] = list(node.out), []
            for message in out:
                self.links[prefix].notify(message)

    # ---- steps

    def write(self) -> None:
        self.rows.write()
        self._collect()

    def pass_time(self, seconds: float) -> None:
        """Let time pass for the head and all nodes."""
        self.now += seconds
        self.control.on_tick(self.now)
        self.control.on_round(self.now)
        for prefix, node in self.nodes.items():
            node.members.tick(self.now)
            if not self.up[prefix] or not isinstance(self.up[prefix][0], Join):
                self.report(prefix)
        self._collect()

    def break_connection(self, prefix: bytes) -> None:
        """End the connection of a node. Messages on their way are lost, and the node joins
        again.
        """
        if prefix in self.nodes:
            self._collect()
            self.control.on_lost(prefix)
            self._collect()
            self.join(next(one for one, p in NODES.items() if p == prefix), prefix)

    def restart(self) -> None:
        """End the head, with everything that was not written. The next head reads what was
        written.
        """
        self._collect()
        self.box.clear()
        self.begin()

    def settle(self, turns: int = 30) -> None:
        """Deliver all messages until none is left."""
        for _ in range(turns):
            for prefix in list(NODES.values()):
                while self.up[prefix]:
                    self.hand_up(prefix)
            self.write()
            for prefix in list(NODES.values()):
                while self.down[prefix]:
                    self.hand_down(prefix)

    def talk(self, seconds: float = 0.01, turns: int = 4) -> Interleaved:
        for _ in range(turns):
            self.pass_time(seconds / turns)
            self.settle(1)
        return self

    def step(self) -> None:
        """Deliver one message, or let the store write."""
        prefix = self.order.choice(list(NODES.values()))
        self.order.choice((self.hand_up, self.hand_down, lambda _: self.write()))(prefix)
