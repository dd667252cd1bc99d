"""Runs a workload with departures under a node policy, in virtual time.

Units wait in the order of arrival. A unit that finds no room lets later ones pass. A gang gets
places for all its members or for none.
"""

from __future__ import annotations

import heapq
from collections import deque
from dataclasses import dataclass

import numpy as np

from phalanx.scheduler.placement.fragmentation.shape import Shape
from phalanx_research.departures.clusters import Cluster, Pool, cluster_of
from phalanx_research.departures.workload import Replay

POINTS = 120
"""The number of points of the allocation over time."""


@dataclass(frozen=True, kw_only=True)
class ReplayRun:
    """The result of a run. `alloc_pct`: the percentage of all GPUs that is in use until the last
    arrival; work that moves lost does not count. `over_time`: the percentage in use in each of
    `POINTS` equal intervals. `waits_s` and `gang_waits_s`: the waits of all units with GPUs, and of
    units with more than one whole GPU. A unit that never starts counts as waiting until the end of
    the run. `moves`: how many pods were moved.
    """

    policy: str
    alloc_pct: float
    over_time: tuple[float, ...]
    waits_s: tuple[float, ...]
    gang_waits_s: tuple[float, ...]
    moves: int = 0


_Kind = tuple[Shape, int]
"""The units that find room at the same times: their shape, and their number of members."""


class _Run:
    """One run: the waiting units, and the ends of the running ones."""

    def __init__(self, replay: Replay, cluster: Cluster | Pool) -> None:
        self._units = replay.units
        self._cluster = cluster
        self._at = 0
        self._waiting: dict[_Kind, deque[int]] = {}
        """The waiting units of each kind, in the order of arrival."""
        self.started: dict[int, float] = {}
        self._ends: list[tuple[float, int]] = []
        self.changes: list[tuple[float, int]] = []
        """The times at which GPUs in use changed, and by how many thousandths."""

    def next_s(self) -> float:
        """Return the time of the next event; infinite if nothing can happen any more."""
        arrival = self._units[self._at].at_s if self._at < len(self._units) else np.inf
        end = self._ends[0][0] if self._ends else np.inf
        return min(arrival, end)

    def happen(self, now: float) -> None:
        """End the units whose time has come, and begin units that arrive or find room now."""
        freed: set[int] = set()
        while self._ends and self._ends[0][0] <= now:
            end_s, number = heapq.heappop(self._ends)
            later_s = self._cluster.end_of(number)
            if later_s > end_s:  # it was moved since, and lost work
                heapq.heappush(self._ends, (later_s, number))
                continue
            freed |= self._cluster.end(number)
            self.changes.append((now, -self._units[number].milli))
        new: dict[_Kind, None] = {}
        while self._at < len(self._units) and self._units[self._at].at_s <= now:
            unit = self._units[self._at]
            self._cluster.arrives(unit)
            kind = (unit.shape, unit.members)
            if kind not in self._waiting:
                self._waiting[kind] = deque()
                new[kind] = None
            self._waiting[kind].append(self._at)
            self._at += 1
        self._begin([*self._with_room(freed), *new], now)

    def _with_room(self, freed: set[int]) -> list[_Kind]:
        """Return the waiting kinds of which a member may fit on one of these nodes. All others
        found no room before, and no other node has got more room since.
        """
        kinds = list(self._waiting)
        if not freed or not kinds or self._cluster.moves_pods:
            return kinds if freed else []
        may = self._cluster.may_begin([shape for shape, _ in kinds], freed)
        return [kind for kind, may_begin in zip(kinds, may, strict=True) if may_begin]

    def _begin(self, kinds: list[_Kind], now: float) -> None:
        """Begin waiting units of these kinds in the order of arrival, as long as they find room."""
        firsts = [(self._waiting[kind][0], kind) for kind in dict.fromkeys(kinds)]
        heapq.heapify(firsts)
        while firsts:
            number, kind = firsts[0]
            unit, waiting = self._units[number], self._waiting[kind]
            if not self._cluster.begin(number, unit, now):
                heapq.heappop(firsts)
                continue
            self.started[number] = now
            self.changes.append((now, unit.milli))
            heapq.heappush(self._ends, (self._cluster.end_of(number), number))
            waiting.popleft()
            if waiting:
                heapq.heapreplace(firsts, (waiting[0], kind))
            else:
                heapq.heappop(firsts)
                del self._waiting[kind]


def run_replay(replay: Replay, policy: str) -> ReplayRun:
    """Run a workload under a policy (see `clusters.cluster_of`). The run ends at twice the time of
    the last arrival.
    """
    cluster = cluster_of(replay, policy)
    run = _Run(replay, cluster)
    horizon = 2 * replay.end_s
    while (now := run.next_s()) <= horizon:
        run.happen(now)
    over_time = _over_time(run.changes, replay)
    units = replay.units
    waits = [run.started.get(i, horizon) - unit.at_s for i, unit in enumerate(units)]
    return ReplayRun(
        policy=policy,
        alloc_pct=float(np.mean(over_time)) - _lost_pct(cluster, replay),
        over_time=tuple(over_time),
        waits_s=tuple(w for w, unit in zip(waits, units, strict=True) if unit.shape.num_gpu),
        gang_waits_s=tuple(w for w, unit in zip(waits, units, strict=True) if unit.is_gang),
        moves=cluster.moves,
    )


def _lost_pct(cluster: Cluster | Pool, replay: Replay) -> float:
    """Return the work that moves lost until the last arrival, in % of what all GPUs could do."""
    lost = sum(x for at_s, x in cluster.lost if at_s <= replay.end_s)
    return 100 * lost / (replay.capacity_milli * replay.end_s)


def _over_time(changes: list[tuple[float, int]], replay: Replay) -> list[float]:
    """Return the mean percentage of GPUs in use in each interval until the last arrival."""
    times = np.array([0.0] + [time for time, _ in changes])
    held = np.cumsum([0] + [milli for _, milli in changes])
    area = np.concatenate(([0.0], np.cumsum(held[:-1] * np.diff(times))))
    edges = np.linspace(0.0, replay.end_s, POINTS + 1)
    slot = np.searchsorted(times, edges, side="right") - 1
    done = area[slot] + held[slot] * (edges - times[slot])
    means: list[float] = (100 * np.diff(done) / np.diff(edges) / replay.capacity_milli).tolist()
    return means
