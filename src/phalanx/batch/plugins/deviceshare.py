"""Parts of devices: memory of one card, or several cards with so much memory and so many cores.

Source: Volcano's deviceshare plugin. A task asks for volcano.sh/gpu-memory (MiB of one card) or
volcano.sh/vgpu-number cards with volcano.sh/vgpu-memory MiB and volcano.sh/vgpu-cores percent each.
Score with `ScheduleWeight` w: `binpack` w * mean share of memory in use on the cards it would get,
`spread` w * 100 for cards nobody uses.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from phalanx.batch.amounts import Flags, Vector
from phalanx.batch.arguments import Arguments, flag, number, text
from phalanx.batch.jobs import Job
from phalanx.batch.klass import Klass
from phalanx.batch.rows import NEVER, TOUCHED, Ask, Filter, Rows, Scorer
from phalanx.batch.session import Session

ONE_CARD, CARDS = "volcano.sh/gpu-memory", "volcano.sh/vgpu-number"
MEMORY, CORES = "volcano.sh/vgpu-memory", "volcano.sh/vgpu-cores"
Need = tuple[int, float, float]
"""(cards, MiB on each, cores in percent on each)"""


class Card:
    """One device: MiB in all, and what is taken."""

    __slots__ = ("cores", "memory", "taken", "tasks")

    def __init__(self, memory: float, used: float) -> None:
        self.memory = memory
        self.taken = memory * used
        self.cores = 100.0 * used
        self.tasks = 1 if used > 0 else 0


class DeviceShare:
    """`deviceshare.GPUSharingEnable`, `deviceshare.VGPUEnable` (either turns the filter on; both
    absent counts as on), `deviceshare.SchedulePolicy` binpack or spread,
    `deviceshare.ScheduleWeight` 0. Nodes tell their cards in `devices`."""

    name = "deviceshare"

    def __init__(self, arguments: Arguments) -> None:
        keys = ("deviceshare.GPUSharingEnable", "deviceshare.VGPUEnable",
                "deviceshare.GPUNumberEnable")  # fmt: skip
        said = [flag(arguments, k, False) for k in keys if k in arguments]
        self._on = any(said) if said else True
        self._policy = text(arguments, "deviceshare.SchedulePolicy", "binpack")
        self._weight = number(arguments, "deviceshare.ScheduleWeight", 0.0)

    def open(self, session: Session) -> None:
        self._cards = [[Card(m, u) for m, u in n.devices] for n in session.cluster.nodes]
        self._held: dict[int, list[Card]] = {}
        self._needs = {k.index: _need(k) for k in session.cluster.klasses}
        if not self._on or not any(n[0] for n in self._needs.values()):
            return

        def changes(klass: Klass) -> int:
            return TOUCHED if self._needs[klass.index][0] else NEVER

        session.add("changed", self.name, self._changed)
        session.add("filter", self.name, Filter(reason="devices", passes=self._passes,
                                                changes=changes, curable=True))  # fmt: skip
        if self._weight:
            session.add(
                "scorer", self.name, Scorer(name=self.name, score=self._score, changes=changes)
            )

    def _choose(self, node: int, need: Need) -> list[Card]:
        """The fullest cards that still have room, as many as needed; empty if too few."""
        cards, memory, cores = need
        fitting = [
            c
            for c in self._cards[node]
            if c.memory - c.taken >= memory and 100.0 - c.cores >= cores
        ]
        fitting.sort(key=lambda c: -c.taken if self._policy == "binpack" else c.taken)
        return fitting[:cards] if len(fitting) >= cards else []

    def _passes(self, rows: Rows, ask: Ask) -> Flags:
        need = self._needs[ask.klass.index]
        if not need[0]:
            return np.ones(len(rows), dtype=np.bool_)
        repeated = np.diff(rows.index, prepend=-1) == 0
        good = [bool(self._choose(int(n), need)) for n in rows.index]
        return np.asarray(np.array(good, dtype=np.bool_) & ~repeated, dtype=np.bool_)

    def _score(self, rows: Rows, ask: Ask) -> Vector:
        need = self._needs[ask.klass.index]
        out = np.zeros(len(rows))
        for i, n in enumerate(rows.index if need[0] else ()):
            chosen = self._choose(int(n), need)
            if chosen and self._policy == "binpack":
                out[i] = 100.0 * sum(c.taken / c.memory for c in chosen) / len(chosen)
            elif chosen:
                out[i] = 100.0 * all(c.tasks == 0 for c in chosen)
        return out * self._weight

    def _changed(
        self, job: Job, klass: Klass, tasks: Sequence[int], nodes: Sequence[int], sign: int
    ) -> None:
        need = self._needs[klass.index]
        for t, node in zip(tasks, nodes, strict=True):
            if not need[0]:
                return
            chosen = self._choose(node, need) if sign > 0 else self._held.pop(t, [])
            for card in chosen:
                card.taken += sign * need[1]
                card.cores += sign * need[2]
                card.tasks += sign
            if sign > 0:
                self._held[t] = chosen


def _need(klass: Klass) -> Need:
    request = dict(klass.shape.request)
    if ONE_CARD in request:
        return (1, request[ONE_CARD], 0.0)
    return (int(request.get(CARDS, 0)), request.get(MEMORY, 0.0), request.get(CORES, 0.0))
