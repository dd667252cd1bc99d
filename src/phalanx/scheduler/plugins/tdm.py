"""The plugin tdm: lends nodes out at certain hours.

Source: Volcano's tdm plugin. A node with the label volcano.sh/revocable-zone takes only tasks that
may use such a zone, and only during the zone's hours. For such tasks it then scores 100. When the
hours end, the preemptable tasks on the node are victims. A job loses at most as many tasks as its
budget allows (jdb-max-unavailable or jdb-min-available, and otherwise 1). Preemptable tasks on
ordinary nodes are preempted for tasks that are not preemptable and may not use a zone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from phalanx.scheduler.cycle import jobs as j
from phalanx.scheduler.cycle.accepted import DURATION, HOURS, Accepted
from phalanx.scheduler.cycle.amounts import Flags, Vector
from phalanx.scheduler.cycle.arguments import Arguments, clock_minutes, part_of, seconds
from phalanx.scheduler.cycle.hooks import PERMIT, REJECT
from phalanx.scheduler.cycle.jobs import Job
from phalanx.scheduler.cycle.rows import Ask, Filter, Rows, Scorer, never
from phalanx.scheduler.cycle.session import Session

ZONE = "volcano.sh/revocable-zone"
_DAY = 24 * 60


class TimeDivision:
    """The plugin tdm. Arguments: `tdm.revocable-zone.<name>`, "HH:MM-HH:MM" by the clock of `now`
    (UTC), where an end at or before the start is on the next day; `tdm.evict.period` (1m), the time
    between two rounds of victims.
    """

    name = "tdm"
    accepts: ClassVar[Accepted] = {"tdm.revocable-zone.*": HOURS, "tdm.evict.period": DURATION}

    def __init__(self, arguments: Arguments) -> None:
        prefix = "tdm.revocable-zone."
        self._hours = {
            k[len(prefix) :]: str(v) for k, v in arguments.items() if k.startswith(prefix)
        }
        self._period_s = seconds(arguments.get("tdm.evict.period")) or 60.0

    def active(self, zone: str, now: float) -> bool:
        """Whether the time `now` (seconds) is within the zone's hours.

        As in Volcano, the hours begin on the day of `now`. So of hours such as 22:00-06:00, the
        part after midnight does not count (Volcano's code of 2026-08:
        `availableRevocableZone` in pkg/scheduler/plugins/tdm/tdm.go).
        """
        start, _, end = self._hours.get(zone, "").partition("-")
        first, last = clock_minutes(start), clock_minutes(end)
        if first is None or last is None:
            return False
        if last <= first:
            last += _DAY
        minute = now / 60 % _DAY
        return first <= minute <= last

    def open(self, session: Session) -> None:
        cluster = session.cluster
        zones = [labels.get(ZONE, "") for labels in cluster.labels]
        lent = np.array([bool(z) for z in zones], dtype=np.bool_)
        live = np.array([self.active(z, session.now) for z in zones], dtype=np.bool_)

        def passes(rows: Rows, ask: Ask) -> Flags:
            at = rows.index
            may = bool(ask.eq_class.shape.revocable_zone)
            return ~lent[at] | (live[at] & may)

        def score(rows: Rows, ask: Ask) -> Vector:
            at = rows.index
            may = bool(ask.eq_class.shape.revocable_zone)
            return np.where(lent[at] & live[at] & may, 100.0, 0.0)

        def victims(preemptor: int, candidates: Sequence[int]) -> list[int]:
            spec = cluster.tasks[preemptor]
            if _said(spec.shape.annotations) or spec.shape.revocable_zone:
                return []
            by_job: dict[int, list[int]] = {}
            for t in candidates:
                plain = not lent[cluster.node_of[t]]
                if cluster.tasks[t].preemptable and cluster.status[t] == j.RUNNING and plain:
                    by_job.setdefault(cluster.job_of[t], []).append(t)
            return [t for job, ts in by_job.items() if job >= 0 for t in ts[: limit(job, len(ts))]]

        def expired() -> list[int]:
            if not session.start_if_due(self.name, self._period_s):
                return []
            by_job: dict[int, list[int]] = {}
            for zone in sorted(self._hours):
                if self.active(zone, session.now):
                    continue
                for node, name in enumerate(zones):
                    if name == zone:
                        for t in sorted(cluster.on_node[node]):
                            running = cluster.status[t] == j.RUNNING
                            if running and cluster.tasks[t].preemptable:
                                by_job.setdefault(cluster.job_of[t], []).append(t)
            return [t for job, ts in by_job.items() if job >= 0 for t in ts[: limit(job, len(ts))]]

        def limit(job: int, wanted: int) -> int:
            return min(_budget(cluster.jobs[job]), wanted)

        session.add("filter", self.name, Filter(reason="revocable-zone", passes=passes,
                                                changes=never))  # fmt: skip
        session.add("scorer", self.name, Scorer(name=self.name, score=score, changes=never))
        session.add("preemptable", self.name, victims)
        session.add("victims", self.name, expired)
        session.add("job_order", self.name, lambda job: job.preemptable)
        session.add("job_pipelined", self.name, _pipelined)
        session.add("job_starving", self.name, _starving)


def _said(annotations: Sequence[tuple[str, str]]) -> bool:
    return dict(annotations).get("volcano.sh/preemptable") == "true"


def _pipelined(job: Job) -> int:
    return REJECT if job.is_starving() else PERMIT


def _starving(job: Job) -> bool:
    return not job.preemptable and job.counts[j.PENDING] > 0


def _budget(job: Job) -> int:
    """Return how many of a job's tasks may be evicted in one round."""
    annotations = dict(job.spec.annotations)
    running, total = job.counts[j.RUNNING], len(job.tasks)
    least = annotations.get("volcano.sh/jdb-min-available")
    most = annotations.get("volcano.sh/jdb-max-unavailable")
    if least is None and most is not None:
        down = total - job.counts[j.SUCCEEDED] - job.counts[j.FAILED] - running
        return max(0, part_of(most, total) - down)
    if least is not None:
        needed = part_of(least, total)
        if running >= needed:
            return running - needed
    return 1
