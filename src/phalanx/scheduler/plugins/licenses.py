"""The plugin licenses: jobs never hold more of a license than the cluster has.

A podgroup holds the licenses that it requests while any of its tasks has a place or is leaving its
place. A cluster has none of a license for which it states no count.
"""

from __future__ import annotations

from typing import ClassVar

from phalanx.scheduler.cycle import jobs as j
from phalanx.scheduler.cycle.accepted import Accepted
from phalanx.scheduler.cycle.arguments import Arguments
from phalanx.scheduler.cycle.equivalence_class import EquivalenceClass
from phalanx.scheduler.cycle.jobs import Job
from phalanx.scheduler.cycle.plan import Rejection
from phalanx.scheduler.cycle.rows import Change
from phalanx.scheduler.cycle.session import Session

_PLACED = (j.ALLOCATED, j.BINDING, j.BOUND, j.RUNNING, j.RELEASING, j.PIPELINED)
_NAMED = 5
"""The largest number of holders that a reason names."""


class Licenses:
    """The plugin licenses. It enforces the snapshot's `licenses`, by the podgroups' `licenses`."""

    name = "licenses"
    accepts: ClassVar[Accepted] = {}

    def __init__(self, arguments: Arguments) -> None:
        pass

    def open(self, session: Session) -> None:
        self._session = session
        self._total = {one.name: one.total for one in session.snapshot.licenses}
        asking = [job for job in session.cluster.jobs if job.spec.licenses]
        if not asking:
            return
        self._held = dict.fromkeys(self._total, 0)
        self._places: dict[str, int] = {}
        """For each podgroup that requests licenses: how many of its tasks have places."""
        self._holders: dict[str, dict[str, int]] = {}
        for job in asking:
            self._places[job.uid] = 0
            self._move(job, sum(job.counts[status] for status in _PLACED))
        session.add("held_back", self.name, self._held_back)
        session.add("pre_predicate", self.name, self._before_node)
        session.add("room", self.name, self._room)
        session.add("shortage", self.name, self._shortage)
        session.add("changed", self.name, self._changed)

    def _move(self, job: Job, more: int) -> None:
        """Change the number of the job's tasks that have places by `more`. The first such task
        takes the job's licenses, and the last one returns them.
        """
        before = self._places[job.uid]
        after = self._places[job.uid] = before + more
        sign = (after > 0) - (before > 0)
        for name, count in job.spec.licenses if sign else ():
            self._held[name] = self._held.get(name, 0) + sign * count
            holders = self._holders.setdefault(name, {})
            if sign > 0:
                holders[job.uid] = count
            else:
                del holders[job.uid]

    def _changed(self, change: Change) -> None:
        if change.job.spec.licenses:
            self._move(change.job, change.sign * len(change.nodes))

    def _held_back(self, job: Job) -> Rejection | None:
        lacking = self._lacking(job)
        return lacking[0] if lacking else None

    def _before_node(self, task: int) -> Rejection | None:
        """Return the rejection of the task if licenses are missing. Tasks that request nothing of a
        node are checked here, too.
        """
        return self._held_back(self._session.job(task))

    def _room(self, _: int, job: Job, eq_class: EquivalenceClass) -> int:
        return 0 if self._lacking(job) else 1 << 30

    def _shortage(
        self, _: int, job: Job, eq_class: EquivalenceClass, count: int
    ) -> list[Rejection]:
        return self._lacking(job)

    def _lacking(self, job: Job) -> list[Rejection]:
        if not job.spec.licenses or self._places[job.uid] > 0:
            return []
        found = []
        for name, asked in job.spec.licenses:
            total, held = self._total.get(name, 0), self._held.get(name, 0)
            detail = {"license": name, "asked": asked, "total": total}
            if asked > total:
                found.append(Rejection(reason="license-none", detail=detail))
            elif held + asked > total:
                detail |= {"held": held, "holders": self._named(name)}
                found.append(Rejection(reason="license", detail=detail))
        return found

    def _named(self, name: str) -> str:
        holders = [uid.removeprefix("default/") for uid in self._holders.get(name, {})]
        more = len(holders) - _NAMED
        jobs = "job" if len(holders) == 1 else "jobs"
        return f"{jobs} {', '.join(holders[:_NAMED])}" + (f" and {more} more" if more > 0 else "")
