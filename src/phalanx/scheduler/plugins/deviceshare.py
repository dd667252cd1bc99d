"""The plugin deviceshare: places tasks that request memory of a card, whole cards, or virtual
cards.

Source: Volcano's deviceshare plugin. Shared cards are requested by volcano.sh/gpu-memory (MiB of
one card; the first card with that much left is taken) or volcano.sh/gpu-number (unused cards).
Virtual cards are requested by volcano.sh/vgpu-number (1 if only memory is requested). For each
card, a task requests volcano.sh/vgpu-memory MiB, or volcano.sh/vgpu-memory-percentage of the
memory, or by default all of it. It also requests volcano.sh/vgpu-cores percent of the cores. A task
with 100 cores needs a card for itself, and a card without free cores takes no more tasks. Cards are
tried from the last to the first.

Only virtual cards with a `SchedulePolicy` have a score. With `binpack` it is, for each card that
the task would get, 100 * the used fraction of the card's memory. With `spread` it is 100 for each
unused card that the task would get. The sum is rounded and multiplied by `ScheduleWeight`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from phalanx.scheduler.cycle import jobs as j
from phalanx.scheduler.cycle.accepted import FOREIGN, ONLY_ONE, WHOLE, Accepted, one_of
from phalanx.scheduler.cycle.amounts import Flags, Vector
from phalanx.scheduler.cycle.arguments import Arguments, flag, text, whole
from phalanx.scheduler.cycle.equivalence_class import EquivalenceClass
from phalanx.scheduler.cycle.rows import BY_ONE, NEVER, Ask, Change, Filter, Rows, Scorer
from phalanx.scheduler.cycle.session import Session
from phalanx.scheduler.cycle.specs import NodeSpec
from phalanx.scheduler.plugin_parts.devices import numbered_devices

SHARED_MEMORY, SHARED_CARDS = "volcano.sh/gpu-memory", "volcano.sh/gpu-number"
CARDS, MEMORY = "volcano.sh/vgpu-number", "volcano.sh/vgpu-memory"
PERCENT, CORES = "volcano.sh/vgpu-memory-percentage", "volcano.sh/vgpu-cores"
_ALL = 100.0
MAX_CARDS = 256
"""The largest number of cards of a node that declares only their number. Further cards are
ignored.
"""


@dataclass(frozen=True)
class Need:
    """A number of cards, and what is needed of each: MiB of its memory (or a percentage), and a
    percentage of its cores.
    """

    cards: int
    memory: float = 0.0
    percent: float = 0.0
    cores: float = 0.0
    alone: bool = False
    virtual: bool = False


class Card:
    """A card: its memory in MiB, and how much of the card is taken."""

    __slots__ = ("cores", "memory", "taken", "tasks")

    def __init__(self, memory: float, used: float) -> None:
        self.memory = memory
        self.taken = memory * used
        self.cores = _ALL * used
        self.tasks = 1 if used > 0 else 0

    def asked(self, need: Need) -> float:
        """Return the MiB that the need takes on this card."""
        return need.memory or self.memory * need.percent / _ALL

    def admits(self, need: Need) -> bool:
        if (need.alone or need.cores >= _ALL) and self.tasks:
            return False
        if self.memory - self.taken < self.asked(need):
            return False
        if not need.virtual:
            return True
        return self.cores + need.cores <= _ALL and (need.cores > 0 or self.cores < _ALL)


class DeviceShare:
    """The plugin deviceshare. Arguments: `deviceshare.GPUSharingEnable`, `.GPUNumberEnable` and
    `.VGPUEnable` choose which requests are honoured. At most one may be true; without any, all are
    honoured. `deviceshare.SchedulePolicy` is binpack or spread (default: none),
    `deviceshare.ScheduleWeight` 0.

    Nodes declare their cards in `devices`, or by their totals of gpu-memory and gpu-number
    (vgpu-memory and vgpu-number).
    """

    name = "deviceshare"
    accepts: ClassVar[Accepted] = {
        "deviceshare.GPUSharingEnable": ONLY_ONE,
        "deviceshare.GPUNumberEnable": ONLY_ONE,
        "deviceshare.VGPUEnable": ONLY_ONE,
        "deviceshare.SchedulePolicy": one_of("binpack", "spread"),
        "deviceshare.ScheduleWeight": WHOLE,
        "deviceshare.NodeLockEnable": FOREIGN,
        "deviceshare.AscendMindClusterVNPUEnable": FOREIGN,
        "deviceshare.AscendHAMiVNPUEnable": FOREIGN,
        "deviceshare.KnownGeometriesCMName": FOREIGN,
        "deviceshare.KnownGeometriesCMNamespace": FOREIGN,
    }

    def __init__(self, arguments: Arguments) -> None:
        ways = [f"deviceshare.{x}Enable" for x in ("GPUSharing", "GPUNumber", "VGPU")]
        unsaid = not any(way in arguments for way in ways)
        self._memory, self._number, self._virtual = (flag(arguments, way, unsaid) for way in ways)
        self._policy = text(arguments, "deviceshare.SchedulePolicy")
        self._weight = whole(arguments, "deviceshare.ScheduleWeight", 0)

    def open(self, session: Session) -> None:
        cluster = session.cluster
        self._held: dict[int, list[tuple[Card, float]]] = {}
        self._needs = {k.index: self._need(k) for k in cluster.eq_classes}
        if not any(n.cards for n in self._needs.values()):
            return
        counted = [_counted(node) for node in cluster.nodes]
        counts = numbered_devices(session, self.name, [n for n, _ in counted], MAX_CARDS)
        self._cards = [
            [Card(memory, used) for memory, used in node.devices]
            or [Card(memory, 0.0) for _ in range(count)]
            for node, count, (_, memory) in zip(
                cluster.nodes, counts.tolist(), counted, strict=True
            )
        ]
        for t, status in enumerate(cluster.status):
            if status in (j.BOUND, j.RUNNING, j.RELEASING):
                self._take(t, self._needs[cluster.eq_class[t].index], cluster.node_of[t])

        def changes(eq_class: EquivalenceClass) -> int:
            return BY_ONE if self._needs[eq_class.index].cards else NEVER

        session.add("changed", self.name, self._changed)
        rule = Filter(reason="devices", passes=self._passes, changes=changes, curable=True)
        session.add("filter", self.name, rule)
        if self._weight and self._policy:
            scorer = Scorer(name=self.name, score=self._score, changes=changes)
            session.add("scorer", self.name, scorer)

    def _need(self, eq_class: EquivalenceClass) -> Need:
        request = dict(eq_class.shape.request)
        if self._memory and request.get(SHARED_MEMORY):
            return Need(1, memory=request[SHARED_MEMORY])
        if self._number and request.get(SHARED_CARDS):
            return Need(int(request[SHARED_CARDS]), alone=True)
        if not self._virtual or not (request.get(CARDS) or request.get(MEMORY)):
            return Need(0)
        memory, percent = request.get(MEMORY, 0.0), request.get(PERCENT, 0.0)
        return Need(
            int(request.get(CARDS, 0)) or 1,
            memory=memory,
            percent=percent or _ALL,
            cores=request.get(CORES, 0.0),
            virtual=True,
        )

    def _choose(self, node: int, need: Need) -> list[Card]:
        """Return as many cards as the task needs; an empty list if too few cards can take the
        task.
        """
        cards = self._cards[node]
        fitting = [c for c in (cards[::-1] if need.virtual else cards) if c.admits(need)]
        return fitting[: need.cards] if len(fitting) >= need.cards else []

    def _passes(self, rows: Rows, ask: Ask) -> Flags:
        need = self._needs[ask.eq_class.index]
        if not need.cards:
            return np.ones(len(rows), dtype=np.bool_)
        return np.array([bool(self._choose(int(n), need)) for n in rows.index], dtype=np.bool_)

    def _score(self, rows: Rows, ask: Ask) -> Vector:
        need = self._needs[ask.eq_class.index]
        out = np.zeros(len(rows))
        for i, n in enumerate(rows.index if need.virtual else ()):
            for card in self._choose(int(n), need):
                if self._policy == "spread":
                    out[i] += 100.0 * (card.tasks == 0)
                else:
                    out[i] += 100.0 * (card.taken + card.asked(need)) / max(card.memory, 1.0)
        return np.floor(out + 0.5) * self._weight

    def _take(self, t: int, need: Need, node: int) -> None:
        held = [(card, card.asked(need)) for card in self._choose(node, need) if need.cards]
        for card, memory in held:
            card.taken += memory
            card.cores += need.cores
            card.tasks += 1
        self._held[t] = held

    def _changed(self, change: Change) -> None:
        need = self._needs[change.eq_class.index]
        for t, node in zip(change.tasks, change.nodes, strict=True):
            if change.sign > 0:
                self._take(t, need, node)
                continue
            for card, memory in self._held.pop(t, ()):
                card.taken -= memory
                card.cores -= need.cores
                card.tasks -= 1


def _counted(node: NodeSpec) -> tuple[int, float]:
    """Return the number of a node's cards and the MiB of each, as the node's capacity states them.
    Return 0 cards if the node lists its cards in `devices`.
    """
    capacity = dict(node.capacity)
    for memory, number in ((SHARED_MEMORY, SHARED_CARDS), (MEMORY, CARDS)):
        count = int(capacity.get(number, 0))
        if count and memory in capacity and not node.devices:
            return count, capacity[memory] // count
    return 0, 0.0
