"""The cluster of a run: it gives units places by a node policy, and takes them back.

Ways to use more of the GPUs can be combined with a node policy by their names, as in
`fgd+demand+moves`:

    demand    the mix that FGD knows is weighted by GPU time, not by the number of pods
    steady    scarcity in which the last free GPUs have no higher price than others, and demand is
              counted by requests
    foreseen  FGD that knows when pods end, with the mix of `demand` (`foreseen.py`)
    moves     a unit that has waited for a while gets room because running pods are moved
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from dataclasses import replace as changed

import numpy as np

from phalanx.scheduler.placement.fragmentation.catalogue import maker_of
from phalanx.scheduler.placement.fragmentation.mix import COVERED, Mix, heaviest_mix
from phalanx.scheduler.placement.fragmentation.placer import NEVER, NodePolicy, Placer
from phalanx.scheduler.placement.fragmentation.published import FirstFit, FragmentationDescent
from phalanx.scheduler.placement.fragmentation.scarcity import ScarcityDescent
from phalanx.scheduler.placement.fragmentation.shape import Shape
from phalanx_research.departures.foreseen import Foreseen, Place
from phalanx_research.departures.workload import Replay, Unit

POOLED = "pooled"
"""The name of the policy that treats all GPUs as one node, so that nothing is ever fragmented."""
WAYS = ("demand", "foreseen", "moves", "steady")
AFTER_S, SETTLE_S, SAVED_S, MOST_MOVES = 60.0, 600.0, 600.0, 16
"""Moves: how long a unit must have waited, and a pod must have run; the most work in seconds that a
moved pod loses; the most pods that are moved for one unit.
"""
RETRY_S, TRIED = 600.0, 16
"""How long a unit waits until moves are tried again, and how many nodes are tried."""


@dataclass
class _Running:
    """A running unit: its places, its start, and its end in seconds."""

    unit: Unit
    places: list[Place]
    since_s: float
    end_s: float


class Cluster:
    """The nodes under one policy."""

    def __init__(self, replay: Replay, policy: str, ways: Sequence[str] = ()) -> None:
        self._nodes = replay.fresh_nodes()
        self._policy = self._made(replay, policy, ways)
        self._placer = Placer(self._nodes, self._policy)
        self._packer = FirstFit(self._nodes)
        self._rows = np.arange(len(self._nodes), dtype=np.intp)
        self._foreseen: Foreseen | None = None
        if "foreseen" in ways:
            self._foreseen = Foreseen(self._nodes, replay.fresh_nodes, _mix_by_time(replay))
        self.moves_pods = "moves" in ways
        """Whether a unit may find room although nothing has ended."""
        self._running: dict[int, _Running] = {}
        self._there: list[dict[int, None]] = [{} for _ in replay.nodes]
        """The units on each node."""
        self._next_s: dict[int, float] = {}
        """For each unit for which moves were tried: when they are tried again."""
        self.moves = 0
        self.lost: list[tuple[float, float]] = []
        """The times of moves, and the work that each lost: thousandths of a GPU times seconds."""

    def _made(self, replay: Replay, policy: str, ways: Sequence[str]) -> NodePolicy:
        if "foreseen" in ways:
            return FirstFit(self._nodes)  # used only to find nodes with room
        if "steady" in ways:
            return ScarcityDescent(self._nodes, power=1.0, demand_power=1.0)
        if "demand" in ways:
            return FragmentationDescent(self._nodes, _mix_by_time(replay))
        return maker_of(policy)(self._nodes, replay.past, replay.draws)

    def arrives(self, unit: Unit) -> None:
        """Let the policy learn from a unit's arrival."""
        self._policy.observe(unit.shape, unit.members)

    def end_of(self, number: int) -> float:
        """Return the time in seconds at which a running unit ends."""
        return self._running[number].end_s

    def end(self, number: int) -> set[int]:
        """Take the places of a unit back. Returns the rows of its nodes."""
        one = self._running.pop(number)
        for place in one.places:
            self._leave(number, one.unit.shape, place)
        return {row for row, _ in one.places}

    def may_begin(self, shapes: Sequence[Shape], rows: set[int]) -> list[bool]:
        """Return for each shape whether a pod fits on one of these nodes, regardless of models."""
        cpu = np.array([shape.cpu_milli for shape in shapes])
        memory = np.array([shape.memory_mib for shape in shapes])
        number = np.array([shape.num_gpu for shape in shapes])
        milli = np.array([max(shape.gpu_milli, 1) for shape in shapes])
        good = np.zeros(len(shapes), dtype=np.bool_)
        for row in rows:
            fits = (self._nodes.cpu_left[row] >= cpu) & (self._nodes.memory_left[row] >= memory)
            free = (self._nodes.gpu_left[row] >= milli[:, None]).sum(axis=1)
            good |= fits & (free >= number)
        return [bool(one) for one in good]

    def begin(self, number: int, unit: Unit, now: float) -> bool:
        """Give all members places. Returns False, and changes nothing, if a member finds no
        place.
        """
        places = self._places_for(number, unit, now)
        if (
            places is None
            and self.moves_pods
            and now >= self._next_s.get(number, unit.at_s + AFTER_S)
        ):
            places = self._moved(number, unit, now)
            self._next_s[number] = now + RETRY_S
        if places is None:
            return False
        self._running[number] = _Running(unit, places, now, now + unit.runs_s)
        return True

    # -- places ----------------------------------------------------------------------------------

    def _places_for(self, number: int, unit: Unit, now: float) -> list[Place] | None:
        places: list[Place] = []
        for _ in range(unit.members):
            place = self._one(unit, now)
            if place is None:
                for taken in places:
                    self._leave(number, unit.shape, taken)
                return None
            self._take(number, unit.shape, place)
            if self._foreseen is not None:
                self._foreseen.take(number, place, unit.shape, now, unit.runs_s)
            places.append(place)
        return places

    def _take(self, number: int, shape: Shape, place: Place) -> None:
        self._nodes.take(*place, shape)
        self._there[place[0]][number] = None

    def _leave(self, number: int, shape: Shape, place: Place) -> None:
        self._nodes.give_back(*place, shape)
        self._there[place[0]].pop(number, None)
        if self._foreseen is not None:
            self._foreseen.give_back(number, place)

    def _fullest(self, shape: Shape, but: int) -> Place | None:
        """Return a place on the fullest node with room, except the node `but`; None if no other
        node has room.
        """
        good = self._nodes.fits(self._rows, shape)
        good[but] = False
        rows = np.flatnonzero(good)
        if not len(rows):
            return None
        row = int(rows[np.argmin(self._nodes.gpu_sum[rows])])
        return row, self._packer.pick_devices(row, shape)

    def _one(self, unit: Unit, now: float) -> Place | None:
        """Return the place of one pod of a unit; None if no node has room."""
        shape = unit.shape
        scores = self._placer.scores(shape)
        if not len(scores) or scores.max() == NEVER:
            return None
        if self._foreseen is not None:
            return self._foreseen.choose(shape, scores > NEVER, now, unit.runs_s)
        row = self._policy.pick_node(scores)
        return row, self._policy.pick_devices(row, shape)

    # -- moves -----------------------------------------------------------------------------------

    def _moved(self, number: int, unit: Unit, now: float) -> list[Place] | None:
        """Give all members places by moving running pods. Returns None, and moves no pod, if moves
        do not suffice.
        """
        undo: list[tuple[int, Place, Place]] = []
        places: list[Place] = []
        for _ in range(unit.members):
            place = self._one(unit, now)
            if place is None:
                place = self._cleared(unit.shape, now, undo)
            if place is None:
                for taken in places:
                    self._leave(number, unit.shape, taken)
                self._undo(undo)
                return None
            self._take(number, unit.shape, place)
            places.append(place)
        for mover in {moved for moved, _, _ in undo}:
            one = self._running[mover]
            lost_s = min(now - one.since_s, SAVED_S)
            one.end_s += lost_s
            one.since_s = now
            self.lost.append((now, lost_s * one.unit.milli))
        self.moves += len(undo)
        return places

    def _undo(self, undo: list[tuple[int, Place, Place]]) -> None:
        while undo:
            mover, old, new = undo.pop()
            one = self._running[mover]
            self._leave(mover, one.unit.shape, new)
            self._take(mover, one.unit.shape, old)
            one.places = [old]

    def _cleared(
        self, shape: Shape, now: float, undo: list[tuple[int, Place, Place]]
    ) -> Place | None:
        """Move pods off one node until a pod of this shape fits there. Returns its place."""
        before = len(undo)
        whole = self._nodes.gpus >= shape.num_gpu
        lack = np.where(whole, shape.milli - self._nodes.gpu_sum, np.iinfo(np.int64).max)
        for row in np.argsort(lack, kind="stable")[:TRIED].tolist():
            if lack[row] > shape.milli:
                break
            movers = [
                n
                for n in self._there[row]
                if n in self._running
                and self._running[n].unit.members == 1
                and now >= self._running[n].since_s + SETTLE_S
                and n not in {moved for moved, _, _ in undo}
            ]
            if sum(self._running[n].unit.milli for n in movers) < lack[row]:
                continue
            movers.sort(key=lambda n: self._running[n].unit.milli)
            for mover in movers:
                if self._fits(row, shape) or len(undo) >= MOST_MOVES:
                    break
                self._move(mover, row, undo)
            if self._fits(row, shape):
                return row, self._policy.pick_devices(row, shape)
            self._undo_to(undo, before)
        return None

    def _undo_to(self, undo: list[tuple[int, Place, Place]], count: int) -> None:
        rest = undo[:count]
        del undo[:count]
        self._undo(undo)
        undo[:] = rest

    def _fits(self, row: int, shape: Shape) -> bool:
        return bool(self._nodes.fits(np.array([row]), shape)[0])

    def _move(self, mover: int, row: int, undo: list[tuple[int, Place, Place]]) -> None:
        one = self._running[mover]
        (old,) = one.places
        self._leave(mover, one.unit.shape, old)
        new = self._fullest(one.unit.shape, but=row)
        if new is None:
            self._take(mover, one.unit.shape, old)
            return
        self._take(mover, one.unit.shape, new)
        one.places = [new]
        undo.append((mover, old, new))


class Pool:
    """A cluster that is one large node: units fit if the sums of all nodes suffice."""

    moves = 0
    moves_pods = False
    lost: Sequence[tuple[float, float]] = ()

    def __init__(self, replay: Replay) -> None:
        self._left = np.array(
            [
                sum(node.cpu_milli for node in replay.nodes),
                sum(node.memory_mib for node in replay.nodes),
                replay.capacity_milli,
            ],
            dtype=np.int64,
        )
        self._running: dict[int, tuple[Unit, float]] = {}

    def arrives(self, unit: Unit) -> None:
        """Do nothing."""

    def begin(self, number: int, unit: Unit, now: float) -> bool:
        """Take a unit's amounts. Returns False if they are not left."""
        load = _load(unit)
        if (load > self._left).any():
            return False
        self._left -= load
        self._running[number] = (unit, now + unit.runs_s)
        return True

    def end_of(self, number: int) -> float:
        """Return the time in seconds at which a running unit ends."""
        return self._running[number][1]

    def end(self, number: int) -> set[int]:
        """Give a unit's amounts back. Returns the only row."""
        self._left += _load(self._running.pop(number)[0])
        return {0}

    def may_begin(self, shapes: Sequence[Shape], rows: set[int]) -> list[bool]:
        """Return True for each shape, because a pod of any shape may fit."""
        return [True] * len(shapes)


def _mix_by_time(replay: Replay) -> Mix:
    """Return the shapes of a workload, weighted by their GPU time until the last arrival."""
    weights: Counter[Shape] = Counter()
    for unit in replay.units:
        kind = changed(unit.shape, memory_mib=0)
        weights[kind] += round(unit.milli * min(unit.runs_s, replay.end_s - unit.at_s))
    return heaviest_mix(weights, COVERED)


def _load(unit: Unit) -> np.ndarray:
    shape = unit.shape
    return np.array([shape.cpu_milli, shape.memory_mib, shape.milli], dtype=np.int64) * unit.members


def cluster_of(replay: Replay, policy: str) -> Cluster | Pool:
    """Return an empty cluster under a policy of the catalogue, with ways after `+`, or under
    `POOLED`. Raises UnknownPolicyError, and ValueError for an unknown way.
    """
    if policy == POOLED:
        return Pool(replay)
    name, *ways = policy.split("+")
    unknown = [way for way in ways if way not in WAYS]
    if unknown:
        raise ValueError(f"there is no way {unknown[0]!r}; there are: {', '.join(WAYS)}")
    for way, policy_of_it in (("demand", "fgd"), ("foreseen", "fgd"), ("steady", "scarcity")):
        if way in ways and name != policy_of_it:
            raise ValueError(f"{way} is a way of {policy_of_it}, not of {name}")
    if "foreseen" in ways and "moves" in ways:
        raise ValueError("foreseen does not know the ends of moved pods: leave out moves")
    return Cluster(replay, name, ways)
