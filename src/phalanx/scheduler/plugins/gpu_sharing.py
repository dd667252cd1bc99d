"""The plugin gpu-sharing: finds room on cards for each task that asks for GPU memory or for a
share.

The columns of a cycle have only sums, in which the halves of two cards look like one whole card. If
any task requests GPU memory, a mode of sharing or a part of a card, this plugin counts each card
separately, as nodes do (`scheduler.devices.cards`). It turns away nodes that have too few cards
with room. A node's cards are read from its capacity `gpu_memory` or, if the cards differ, from its
`devices`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import msgspec
import numpy as np

from phalanx.model.gpu_sharing import BY_MPS, GPU, MEMORY, MPS, PROFILE
from phalanx.scheduler.cycle import jobs as j
from phalanx.scheduler.cycle.accepted import Accepted
from phalanx.scheduler.cycle.amounts import Counts, Flags
from phalanx.scheduler.cycle.arguments import Arguments
from phalanx.scheduler.cycle.equivalence_class import EquivalenceClass
from phalanx.scheduler.cycle.rows import NEVER, TOUCHED, Ask, Change, Filter, Indexes, Rows
from phalanx.scheduler.cycle.session import Session
from phalanx.scheduler.devices.cards import (
    PLAIN,
    CardAsk,
    Cards,
    Taken,
    card_ask,
    how_often,
    most_free,
    pick_cards,
    shared_by,
)
from phalanx.scheduler.devices.quantities import SCALE, from_units, to_units
from phalanx.scheduler.plugin_parts.devices import numbered_devices

GPUS = "nvidia.com/gpu"
MAX_CARDS = 256
"""The largest number of cards that a node counts for."""
_MIB = 2**20
_THERE = (j.BOUND, j.BINDING, j.ALLOCATED, j.PIPELINED, j.RUNNING)
"""The states of tasks that hold cards. Leaving tasks are not among them: the cycle's sums show when
their cards are free.
"""


_Held = tuple[int, int, Cards, tuple[CardAsk, ...]]
"""A node's number of cards, their memory, facts about the cards, and the requests of its tasks."""


class _Book:
    """The cards of one node: the units that each card has left, and the mode in which each card is
    shared. `rooms` has, for each request, how often it has room now, and up to which number that
    was counted.
    """

    __slots__ = ("cards", "left", "memory", "rooms")

    def __init__(self, count: int, memory: int, cards: Cards) -> None:
        self.left = dict.fromkeys(range(count), SCALE)
        self.memory = memory
        self.cards = cards
        self.rooms: dict[CardAsk, tuple[int, int]] = {}

    def how_often(self, ask: CardAsk, most: int) -> int:
        """Return how many equal requests have room one after another, `most` or more if that many
        have.
        """
        rooms, asked = self.rooms.get(ask, (0, 0))
        if rooms == asked < most:
            rooms = how_often(self.left, ask, self.cards, self.memory, most)
            self.rooms[ask] = (rooms, most)
        return rooms

    def take(self, ask: CardAsk) -> Taken:
        self.rooms.clear()
        taken = pick_cards(self.left, ask, self.cards, self.memory) or ()
        for number, units in taken:
            self.left[number] -= units
        self.cards = shared_by(self.cards, ask, taken)
        return taken

    def give_back(self, taken: Taken) -> None:
        self.rooms.clear()
        modes = list(self.cards.modes)
        for number, units in taken:
            self.left[number] += units
            if self.left[number] == SCALE and number < len(modes):
                modes[number] = ""
        self.cards = msgspec.structs.replace(self.cards, modes=tuple(modes))

    def most(self, ask: CardAsk) -> int:
        return most_free(list(self.left.values()), ask, self.cards, self.memory)


class GpuSharing:
    """The plugin gpu-sharing. It takes no arguments."""

    name = "gpu-sharing"
    accepts: ClassVar[Accepted] = {}

    def __init__(self, arguments: Arguments) -> None:
        pass

    def open(self, session: Session) -> None:
        cluster = self._cluster = session.cluster
        if not any(_is_special(k) for k in cluster.eq_classes):
            return
        self._gpu = cluster.dims.index.get(GPUS, -1)
        if self._gpu < 0:
            return
        self._asks = {k.index: _ask(k) for k in cluster.eq_classes}
        self._books: dict[int, _Book] = {}
        self._held: dict[int, Taken] = {}
        self._filled: dict[_Held, tuple[list[Taken], dict[int, int], Cards]] = {}
        """Equal nodes with equal tasks: the cards of each task, and what the cards have left."""
        self._parts, self._by_memory = self._parts_on_nodes()
        counts = cluster.capacity[:, self._gpu] // 1000
        self._counts = numbered_devices(session, self.name, counts, MAX_CARDS).tolist()
        rule = Filter(
            reason="gpu-memory",
            passes=self._passes,
            changes=self._changes,
            curable=True,
            detail=self._detail,
        )
        session.add("filter", self.name, rule)
        session.add("changed", self.name, self._changed)

    def _parts_on_nodes(self) -> tuple[Counts, Flags]:
        """Return for each node how many parts of cards are held there, and whether any of them is
        counted by its memory. On nodes without parts, the sums are exact for requests that name
        neither memory nor a mode.
        """
        cluster = self._cluster
        counts = np.zeros(len(cluster.nodes), dtype=np.int64)
        by_memory = np.zeros(len(cluster.nodes), dtype=np.bool_)
        parts = {index: ask for index, ask in self._asks.items() if ask and _is_part(ask)}
        of_class = np.zeros((max(self._asks) + 1, 2), dtype=np.int64)
        for index, ask in parts.items():
            of_class[index] = (ask.count, ask.memory > 0)
        held = of_class[[eq_class.index for eq_class in cluster.eq_class]]
        nodes = np.array(cluster.node_of)
        there = np.flatnonzero((nodes >= 0) & np.isin(cluster.status, _THERE) & (held[:, 0] > 0))
        counts += np.bincount(nodes[there], held[there, 0], len(counts)).astype(np.int64)
        by_memory[nodes[there[held[there, 1] > 0]]] = True
        for node in cluster.nodes_of_others():
            counts[node] += cluster.taken_by_others(node, self._gpu) % 1000 != 0
        return counts, by_memory

    def _changes(self, eq_class: EquivalenceClass) -> int:
        return NEVER if self._asks[eq_class.index] is None else TOUCHED

    def _book(self, node: int) -> _Book:
        book = self._books.get(node)
        if book is None:
            spec = self._cluster.nodes[node]
            memory = int(dict(spec.capacity).get(MEMORY, 0))
            sizes = tuple(int(mib * _MIB) for mib, _ in spec.devices)
            cards = Cards(memory=sizes) if sizes else PLAIN
            book = self._books[node] = _Book(self._counts[node], memory, cards)
            self._fill(book, node)
        return book

    def _fill(self, book: _Book, node: int) -> None:
        """Count the tasks on a node, first those with whole cards, and then the work outside the
        snapshot.
        """
        cluster = self._cluster
        there = [
            (t, ask)
            for t in cluster.on_node[node]
            if t not in self._held
            and cluster.status[t] in _THERE
            and (ask := self._asks[cluster.eq_class[t].index]) is not None
        ]
        there.sort(key=lambda one: bool(one[1].mode))
        held = (len(book.left), book.memory, book.cards, tuple([ask for _, ask in there]))
        known = self._filled.get(held)
        if known is None:
            known = ([book.take(ask) for _, ask in there], book.left.copy(), book.cards)
            self._filled[held] = known
        takens, left, book.cards = known
        book.left = left.copy()
        self._held.update(zip([t for t, _ in there], takens, strict=True))
        others = cluster.taken_by_others(node, self._gpu) * SCALE // 1000
        whole, share = divmod(others, SCALE)
        if whole:
            book.take(CardAsk(whole))
        if share:
            book.take(card_ask({GPU: share}) or CardAsk(1))

    def _passes(self, rows: Rows, ask: Ask) -> Flags:
        wanted = self._asks[ask.eq_class.index]
        if wanted is None:
            return np.ones(len(rows), dtype=np.bool_)
        found = np.ones(len(rows), dtype=np.bool_)
        before = rows.more_tasks()
        parts = self._parts[rows.index]
        if _is_part(wanted):
            parts = parts + before * wanted.count
        is_looked_at = parts > 0
        if wanted.memory or wanted.mode == BY_MPS:
            is_looked_at[:] = True
        else:
            # Each part is on a card that is not free, so more than this many cards are free.
            free = rows.free(self._gpu) // 1000 - parts
            is_looked_at &= (free < wanted.count - 1) | self._by_memory[rows.index]
        at = is_looked_at.nonzero()[0]
        if len(at):
            times = None if isinstance(before, int) else before[at]
            found[at] = self._counted(rows.index[at], wanted, times)
        return found

    def _counted(self, nodes: Indexes, wanted: CardAsk, before: Counts | None) -> Flags:
        """Return for each node whether a request has room on its cards. `before`: how many equal
        requests get their room first; the rows of one node follow each other.
        """
        if before is None:
            return np.array([self._book(node).how_often(wanted, 1) > 0 for node in nodes.tolist()])
        is_last = np.ones(len(nodes), dtype=np.bool_)
        is_last[:-1] = nodes[1:] != nodes[:-1]
        ends = zip(nodes[is_last].tolist(), before[is_last].tolist(), strict=True)
        rooms = np.array([self._book(node).how_often(wanted, most + 1) for node, most in ends])
        found: Flags = rooms[is_last.cumsum() - is_last] > before
        return found

    def _detail(self, ask: Ask) -> Mapping[str, Any] | None:
        wanted = self._asks[ask.eq_class.index]
        if wanted is None:
            return None
        nodes = range(len(self._cluster.nodes))
        most = max((self._book(node).most(wanted) for node in nodes), default=0)
        if wanted.memory:
            asked, resource = float(wanted.memory), MEMORY
        else:
            asked, resource = (
                from_units(wanted.share * (wanted.count if not wanted.mode else 1)),
                GPU,
            )
        return {
            "resource": resource,
            "asked": asked,
            "most": from_units(most),
            "cards": wanted.count,
            "mode": " shared by MPS" if wanted.mode == BY_MPS else "",
        }

    def _changed(self, change: Change) -> None:
        ask = self._asks[change.eq_class.index]
        if ask is None:
            return
        for t, node in zip(change.tasks, change.nodes, strict=True):
            if _is_part(ask):
                self._parts[node] += change.sign * ask.count
                self._by_memory[node] |= ask.memory > 0
            book = self._books.get(node)
            if book is None and self._cluster.node_of[t] not in (node, -1):
                book = self._book(
                    node
                )  # the columns do not show a task at a place that it moves to
            if book is None:
                continue  # the rest is filled from the columns when it is needed
            if change.sign > 0 and t not in self._held:
                self._held[t] = book.take(ask)
            elif change.sign < 0 and (taken := self._held.pop(t, None)) is not None:
                book.give_back(taken)


def _is_special(eq_class: EquivalenceClass) -> bool:
    return any(
        name in (MEMORY, MPS) or (name in (GPUS, "gpu") and amount % 1 != 0)
        for name, amount in eq_class.shape.request
    )


def _is_part(ask: CardAsk | None) -> bool:
    """Whether a request takes a part of a card, so that sums no longer describe the cards."""
    return ask is not None and bool(ask.mode or ask.memory or ask.share % SCALE)


def _ask(eq_class: EquivalenceClass) -> CardAsk | None:
    """Return the cards that a class requests; None if it requests none. The profile of a part of a
    split card is left out, because a node's capacity has the number of parts with each profile, but
    not which cards they are.
    """
    request = {
        GPU if name in (GPUS, "gpu") else name: to_units(x)
        for name, x in eq_class.shape.request
        if x > 0 and not name.startswith(PROFILE)
    }
    if not request.get(GPU):
        return None
    return card_ask(request) or CardAsk(request[GPU] // SCALE)
