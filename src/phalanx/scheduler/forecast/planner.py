"""Plans over time: the first waiting podgroups are promised places, and others use the room that is
left.

This is conservative backfill. Podgroups are planned in their order (see `order`). Each gets the
earliest time at which it has room until its end, alongside all running work and all podgroups
planned before it. So a podgroup may start before another that is ahead of it, without delaying it.

A promised place is kept from plan to plan until an earlier place is found. Otherwise podgroups
further back could take the promised room first when work ends early. Only a podgroup that is ahead
in the order can end a promise. The expected length of work is its time limit, or the time that nine
in ten past runs of the same work did not exceed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from phalanx.model.rows.plan import PlannedStart, TimePlan
from phalanx.scheduler.cycle.jobs import Job
from phalanx.scheduler.cycle.session import Session
from phalanx.scheduler.forecast.cycle_promises import CyclePromises
from phalanx.scheduler.forecast.draft import Draft
from phalanx.scheduler.forecast.expected import running, starts
from phalanx.scheduler.forecast.foreseen import Foreseen
from phalanx.scheduler.forecast.order import first_of, in_order, waiting_by_queue
from phalanx.scheduler.forecast.promised import Kept, PromiseRow
from phalanx.scheduler.forecast.reading import ClusterSnapshot
from phalanx.scheduler.forecast.run_times import EARLY, LearntRunTimes
from phalanx.scheduler.plugins.reservation import PLANNER


class Planner:
    """Makes plans, and keeps promises and their order from cycle to cycle."""

    def __init__(self, learnt: LearntRunTimes | None = None) -> None:
        self._learnt = learnt
        self._kept: dict[str, Kept] = {}
        self._foreseen: Foreseen | None = None

    def plan(self, session: Session, most: int | None = None) -> TimePlan:
        """Plan when all waiting podgroups of a session start if no other work arrives.

        Only the first `most` podgroups are planned, in order. Nothing is promised.
        """
        waiting = self._waiting(session)[:most]
        draft = Draft(ClusterSnapshot(session, self._learnt))
        earliest = self._add(draft, waiting, waiting)
        return TimePlan(
            now=session.now,
            starts=tuple(starts(draft, earliest, self._learnt)),
            unknown=tuple(job.uid for job in draft.unknown),
            running=tuple(running(draft)),
        )

    def expect(self, snapshot: ClusterSnapshot, podgroup: str) -> PlannedStart | None:
        """Return the planned start of one podgroup; None if the plan finds no start for it.
        Podgroups behind this one are not planned.
        """
        session = snapshot.session
        waiting = self._waiting(session)
        at = next((at for at, job in enumerate(waiting) if job.uid == podgroup), None)
        if at is None or not snapshot.may_ever_start(waiting[at]):
            return None
        for job in waiting:  # to learn whether any length comes from past runs
            snapshot.length(job.spec)
        draft = Draft(snapshot)
        earliest = self._add(draft, waiting[: at + 1], waiting[at : at + 1])
        found = starts(draft, earliest, self._learnt)
        return next((one for one in found if one.podgroup == podgroup), None)

    def _waiting(self, session: Session) -> list[Job]:
        """Return the valid jobs that plans include, in the order in which they are promised
        places.
        """
        by_queue = waiting_by_queue(session).values()
        valid = (job for jobs in by_queue for job in jobs if session.job_valid(job))
        return in_order(session, valid, self._places())

    def _add(self, draft: Draft, jobs: list[Job], told: list[Job]) -> dict[str, float]:
        """Plan these podgroups. If any length was learnt from past runs, return when each of the
        podgroups in `told` could start if no other podgroup waited; otherwise return nothing.
        """
        draft.add(
            jobs, self._kept, improves=False
        )  # otherwise this plan would show places that no cycle keeps
        if not draft.snapshot.rests_on_learnt:
            return {}
        early = Draft(ClusterSnapshot(draft.session, self._learnt, EARLY))
        return early.alone(told)

    def promises(self, session: Session, promised: int, minimum: int) -> CyclePromises:
        """Return the promises for a cycle.

        The first podgroups of each queue are planned, and other podgroups only if they can start
        now. `LentPlanner` describes the parameters.
        """
        first: list[Job] = []
        others: list[Job] = []
        for waiting in waiting_by_queue(session).values():
            chosen = [
                job for job in first_of(session, waiting, promised) if job.min_available >= minimum
            ]
            uids = {job.uid for job in chosen}
            first += chosen
            others += (job for job in waiting if job.uid not in uids)
        places = self._places()
        draft = Draft(ClusterSnapshot(session, self._learnt))
        draft.add(in_order(session, first, places), self._kept, self._foreseen, improves=True)
        lines, grid = draft.snapshot.lines.names, draft.snapshot.grid
        names = session.cluster.dims.names
        self._kept = {
            e.job.uid: e.kept or Kept.of(e.taking, grid, lines, names) for e in draft.entries
        }
        can, cannot = draft.with_room_now(others)
        cannot += draft.start_now(in_order(session, filter(session.job_valid, can), places))
        self._foreseen = draft.foreseen()
        return CyclePromises(draft, cannot)

    def _places(self) -> dict[str, int]:
        return {uid: place for place, uid in enumerate(self._kept)}

    @property
    def promised(self) -> Mapping[str, Kept]:
        """The last promises by podgroup, in the order in which they were made. A promise that did
        not change is the same object as before.
        """
        return self._kept

    def clock_stepped(self, step_s: float) -> None:
        """Shift all promises after the clock was stepped by this many seconds, so that they stay as
        far in the future as before.
        """
        self._kept = {uid: kept.later(step_s) for uid, kept in self._kept.items()}
        self._foreseen = None

    def restore(self, rows: Iterable[PromiseRow]) -> None:
        """Replace all promises by those of an earlier planner, which these rows store."""
        listed = sorted(rows, key=lambda row: row.place)
        self._kept = {row.podgroup: Kept.read(row) for row in listed}
        self._foreseen = None


def lent(planner: Planner | None = None) -> dict[str, Any]:
    """Return the `shells` for a cycle, in which the plugin `reservation` finds this planner."""
    return {PLANNER: planner or Planner()}
