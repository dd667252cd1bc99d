"""The log of recent cycles for display: the decisions of each cycle by gang, and its duration."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

import msgspec

from phalanx.errors import JobNotFoundError
from phalanx.head.clock import Clock
from phalanx.head.gangs.gang import Gang
from phalanx.model.rows.cycles import CycleInfo, EvictedInfo, PlacedInfo, RefusedInfo
from phalanx.scheduler.cycle.explain import sentence
from phalanx.scheduler.cycle.plan import Plan, Rejection

KEEP_CYCLES = 200
"""The number of cycles that are kept. Consecutive cycles that decided nothing about the same gangs
count as one.
"""
NAMED = 200
"""The largest number of gangs that each list of a cycle's entry names."""
NODES = 16
"""The largest number of nodes that are named for a gang."""
ACTION = "action"
_LISTS = ("placed", "evicted", "promised", "left")


class _Kept(NamedTuple):
    info: CycleInfo
    refused: dict[str, Rejection]
    """Rejections of whole gangs. A rejection is put into words when somebody asks for the cycle."""


class CycleLog:
    """The log of the last cycles, for display. Each cycle adds its entry."""

    def __init__(self, clock: Clock, member_of: Mapping[str, tuple[Gang, int]]) -> None:
        """`member_of`: returns the gang and the member index of a task."""
        self._clock = clock
        self._member_of = member_of
        self._cycles: deque[_Kept] = deque(maxlen=KEEP_CYCLES)
        self._count = 0

    def decided(
        self, plan: Plan, waiting: Collection[Gang], *, took_s: float, read_s: float
    ) -> None:
        """Record the plan of a cycle over the waiting gangs. `took_s`: the seconds that the whole
        cycle took. `read_s`: the part of these seconds in which the cluster was read.
        """
        self._count += 1
        actions = {one.name: one.seconds for one in plan.timings if one.part == ACTION}
        placed, evicted = self._placed(plan), self._evicted(plan)
        known = self._member_of
        promised = {known[task][0].uid for task in plan.pipelined if task in known}
        served = {*placed, *promised}
        left = [gang.uid for gang in waiting if gang.uid not in served]
        cycle = CycleInfo(
            number=self._count,
            at=self._clock.wall() - took_s,
            repeats=0,
            took_s=took_s,
            read_s=read_s,
            actions=actions,
            may_evict=any(name not in ("allocate", "backfill", "enqueue") for name in actions),
            considered=len(waiting),
            placed=list(placed.values())[:NAMED],
            evicted=list(evicted.values())[:NAMED],
            promised=sorted(promised)[:NAMED],
            left=left[:NAMED],
            counts={
                "placed": len(placed),
                "evicted": len(evicted),
                "promised": len(promised),
                "left": len(left),
            },
            warnings=list(plan.warnings)[:NODES],
        )
        refused = {uid: plan.rejections[uid][0] for uid in left[:NAMED] if uid in plan.rejections}
        before = self._cycles[-1].info if self._cycles else None
        if before is not None and _is_same(before, cycle):
            again = msgspec.structs.replace(
                cycle,
                number=before.number,
                repeats=before.repeats + 1,
                took_s=max(before.took_s, took_s),
                may_evict=before.may_evict or cycle.may_evict,
                actions={**before.actions, **actions},
            )
            self._cycles[-1] = _Kept(again, refused)
            return
        self._cycles.append(_Kept(cycle, refused))

    def _placed(self, plan: Plan) -> dict[str, PlacedInfo]:
        found: dict[str, tuple[Gang, list[str]]] = {}
        for task, node in plan.binds.items():
            if task not in self._member_of:
                continue  # the member has ended while the plan was carried out
            gang, _ = self._member_of[task]
            found.setdefault(gang.uid, (gang, []))[1].append(node)
        return {
            uid: PlacedInfo(
                gang=uid,
                queue=gang.queue,
                members=len(nodes),
                nodes=list(dict.fromkeys(nodes))[:NODES],
                node_count=len(set(nodes)),
                **_chosen(plan, uid),
            )
            for uid, (gang, nodes) in found.items()
        }

    def _evicted(self, plan: Plan) -> dict[str, EvictedInfo]:
        found: dict[str, list[Any]] = {}
        for eviction in plan.evictions:
            if eviction.task not in self._member_of:
                continue
            gang, _ = self._member_of[eviction.task]
            said = found.setdefault(gang.uid, [gang, 0, eviction.reason, ""])
            said[1] += 1
            if eviction.claimant:
                said[2:] = [eviction.reason, eviction.claimant]
        return {
            uid: EvictedInfo(
                gang=uid, queue=gang.queue, members=members, action=action, claimant=claimant
            )
            for uid, (gang, members, action, claimant) in found.items()
        }

    # ---- questions ---------------------------------------------------------------------------

    def rows(self, number: int | None) -> list[CycleInfo]:
        """Return the cycles, oldest first. Without a number: all kept cycles, without names of
        gangs. With a number: that cycle and the cycle before it, if the log still has one, both
        with all names. Raises JobNotFoundError for a number that the log does not have.
        """
        if number is None:
            nothing: dict[str, list[Any]] = {name: [] for name in _LISTS}
            return [msgspec.structs.replace(one.info, **nothing) for one in self._cycles]
        numbers = [one.info.number for one in self._cycles]
        if number not in numbers:
            known = f"{numbers[0]} to {numbers[-1]}" if numbers else "none yet"
            raise JobNotFoundError(
                f"cycle {number} is not known, or no longer known; known cycles: {known}"
            )
        place = numbers.index(number)
        return [_whole(self._cycles[i]) for i in (place - 1, place) if i >= 0]


def _chosen(plan: Plan, uid: str) -> dict[str, Any]:
    """Return the fields of an entry that say why the node of the gang's first member was chosen; {}
    if the cycle did not note the reason.
    """
    choice = plan.choices.get(uid)
    if choice is None:
        return {}
    return {
        "first": choice.node,
        "among": choice.among,
        "scores": dict(choice.scores),
        "chooser": choice.chooser,
    }


def _whole(kept: _Kept) -> CycleInfo:
    refused = [
        RefusedInfo(gang=uid, plugin=one.plugin, code=one.reason, sentence=sentence(one))
        for uid, one in kept.refused.items()
    ]
    return msgspec.structs.replace(kept.info, refused=refused)


def _is_same(before: CycleInfo, now: CycleInfo) -> bool:
    """Whether both cycles considered the same gangs and decided nothing."""
    is_nothing = not any(
        one.counts[name] for one in (before, now) for name in ("placed", "evicted", "promised")
    )
    return is_nothing and (before.left, before.counts) == (now.left, now.counts)
