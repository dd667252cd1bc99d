"""A plan to which podgroups are added one after another, each at the earliest time at which it has
room.

Each podgroup has room until its end, alongside all running work and all podgroups that were planned
before it. So a podgroup may start earlier than one that is ahead of it without delaying that one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from phalanx.scheduler.cycle.jobs import Job
from phalanx.scheduler.forecast.foreseen import Foreseen
from phalanx.scheduler.forecast.promised import Kept
from phalanx.scheduler.forecast.reading import ClusterSnapshot, to_start
from phalanx.scheduler.forecast.timetable import Demand, Taking, Timetable


class Entry:
    """A waiting podgroup and its room. `kept`: the earlier promise of this room; None if the
    podgroup was not promised this room before.
    """

    __slots__ = ("job", "kept", "past_runs", "taking")

    def __init__(self, job: Job, taking: Taking, past_runs: int, kept: Kept | None = None) -> None:
        self.job = job
        self.taking = taking
        self.past_runs = past_runs
        self.kept = kept


class Draft:
    """A plan of one session, to which podgroups are added one after another."""

    def __init__(self, snapshot: ClusterSnapshot) -> None:
        self.session = snapshot.session
        self.snapshot = snapshot
        self.table: Timetable = self.snapshot.timetable()
        self.entries: list[Entry] = []
        self.unknown: list[Job] = []
        self._has_moved = False
        """Whether a podgroup with a kept place was moved to an earlier place."""
        self._found: dict[tuple[object, ...], _Found] = {}
        self._at = self.snapshot.lines.index

    def add(
        self,
        jobs: Sequence[Job],
        kept: Mapping[str, Kept],
        foreseen: Foreseen | None = None,
        *,
        improves: bool,
    ) -> None:
        """Plan these podgroups, in this order, after all podgroups that were planned before.

        `kept`: the places from earlier plans. No podgroup starts later than its kept place, unless
        a new podgroup is ahead of it. With `improves`, podgroups may start earlier than at their
        kept places. `foreseen`: an earlier plan. If all room that is free now was free in that
        plan, too, no earlier places are looked for.
        """
        demands = [(job, *self._demand(job)) for job in jobs]
        held = self._hold(demands, kept)
        if foreseen is not None and not foreseen.covers(self.snapshot, self.table):
            foreseen = None
        for job, demand, past_runs in demands:
            if demand is None:
                continue
            before = held.get(job.uid)
            if before is not None and (
                not improves or (foreseen is not None and foreseen.had(job.uid, demand))
            ):
                self.entries.append(Entry(job, before, past_runs, kept[job.uid]))
                continue
            taking = self._earliest(demand) if before is None else self._earlier(before)
            if taking is None:
                self.unknown.append(job)
                continue
            self.table.take(taking)
            stays = before is not None and taking is before
            self._has_moved |= before is not None and not stays
            self.entries.append(Entry(job, taking, past_runs, kept[job.uid] if stays else None))

    def _hold(
        self, demands: Iterable[tuple[Job, Demand | None, int]], kept: Mapping[str, Kept]
    ) -> dict[str, Taking]:
        """Take the kept places of the first podgroups, up to the first podgroup without one. Places
        that are no longer possible or free are skipped. Returns the taken places by podgroup.
        """
        names = self.session.cluster.dims.names
        held: dict[str, Taking] = {}
        for job, demand, _ in demands:
            if job.uid not in kept:
                break
            if demand is not None:
                taking = kept[job.uid].again(self.table, demand, self._at, names)
                if taking is not None:
                    held[job.uid] = taking
        if self.table.take_all(list(held.values())):
            return held
        free: dict[str, Taking] = {}
        for uid, taking in held.items():
            if self.table.is_free(taking):
                self.table.take(taking)
                free[uid] = taking
        return free

    def _demand(self, job: Job) -> tuple[Demand | None, int]:
        length = self.snapshot.length(job.spec)
        return self.snapshot.demand(job, length), length.past_runs

    def _earlier(self, before: Taking) -> Taking:
        """Look for earlier room for the podgroup that now has the room `before`.

        Frees `before`, and returns the earlier room or, if there is none, `before`. The caller must
        take the returned room.
        """
        self.table.give_back(before)
        taking = self._earliest(before.demand, before.first) if before.first else None
        if taking is None:
            return before
        self._found.clear()  # another podgroup may have found no room because of this one
        return taking

    def alone(self, jobs: Iterable[Job]) -> dict[str, float]:
        """Return when each of these podgroups could start if no other podgroup waited. No room is
        taken.
        """
        found = ((job, self._demand(job)[0]) for job in jobs)
        takings = ((job, self._earliest(d)) for job, d in found if d is not None)
        grid = self.snapshot.grid
        return {job.uid: grid.at(taking.first) for job, taking in takings if taking is not None}

    def with_room_now(self, jobs: Iterable[Job]) -> tuple[list[Job], list[Job]]:
        """Divide these podgroups into those that may have room now and those that certainly have
        none. A podgroup is in the second list if it has equal tasks and the nodes have too little
        room for them now. Quotas are not considered.
        """
        room: dict[int, int] = {}
        may: list[Job] = []
        cannot: list[Job] = []
        for job in jobs:
            eq_class = job.eq_class
            if eq_class is None:
                may.append(job)
                continue
            count = room.get(eq_class.index)
            if count is None:
                count = self.table.room_now(eq_class.vector, eq_class.asked)
                room[eq_class.index] = count
            (may if count and count >= to_start(job) else cannot).append(job)
        return may, cannot

    def start_now(self, jobs: Iterable[Job]) -> list[Job]:
        """Plan those of these podgroups that can start now, in the given order. Returns the other
        podgroups.
        """
        waiting: list[Job] = []
        hopeless: set[object] = set()
        for job in jobs:
            kind = self.snapshot.kind(job)
            if kind in hopeless:
                waiting.append(job)
                continue
            demand, past_runs = self._demand(job)
            if demand is None:
                continue
            taking = self._earliest(demand, 1)
            if taking is None:
                waiting.append(job)
                if kind is not None:
                    hopeless.add(kind)
            else:
                self.table.take(taking)
                self.entries.append(Entry(job, taking, past_runs))
        return waiting

    def foreseen(self) -> Foreseen | None:
        """Return this plan in a form for the next plan, which then looks for earlier places only if
        other room has become free.

        Returns None if a podgroup was moved to an earlier place: its former room may suit a
        podgroup ahead of it.
        """
        if self._has_moved:
            return None
        demands = {entry.job.uid: entry.taking.demand for entry in self.entries}
        return Foreseen(self.snapshot, self.table, demands)

    def _earliest(self, demand: Demand, end: int | None = None) -> Taking | None:
        """Return the earliest room for a demand before the time `end`; None if there is no room.
        Times that are known to have no room are skipped: room only shrinks while a plan grows, so a
        demand need not try a time at which a smaller demand failed.
        """
        key = (demand.quotas, *((part.eq_class, id(part.nodes)) for part in demand.parts))
        found = self._found.setdefault(key, _Found())
        counts = tuple(part.count for part in demand.parts)
        begin = found.begin(counts, demand.length_s)
        never = len(self.table.grid) if end is None else end
        if begin >= never:
            return None
        taking = self.table.earliest(demand, begin, end)
        found.add(counts, demand.length_s, never if taking is None else taking.first)
        return taking


class _Found:
    """The times at which demands of one kind found room, by the number of tasks and the length of
    the demands.
    """

    def __init__(self) -> None:
        self._known: dict[tuple[tuple[int, ...], float], int] = {}

    def begin(self, counts: tuple[int, ...], length_s: float | None) -> int:
        """Return a time before which a demand of this size and length has no room. (It may have
        none later, too.)
        """
        long = float("inf") if length_s is None else length_s
        found = self._known.get((counts, long))
        if found is not None:
            return found
        return max(
            (
                at
                for (least, shorter), at in self._known.items()
                if shorter <= long and all(a <= b for a, b in zip(least, counts, strict=True))
            ),
            default=0,
        )

    def add(self, counts: tuple[int, ...], length_s: float | None, at: int) -> None:
        self._known[counts, float("inf") if length_s is None else length_s] = at
