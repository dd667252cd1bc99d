"""The plugin sla: no job waits longer than promised.

Source: Volcano's sla plugin. A job's deadline is its creation time plus its waiting time. The
waiting time is in the job's annotation `sla-waiting-time` or, if there is none, in the argument.
Jobs are ordered by their deadlines, and jobs without a deadline come last. From the deadline on,
the plugin votes that the job be let in, and that it be pipelined. Before the deadline, it abstains.
A time without a unit is ignored.
"""

from __future__ import annotations

from typing import ClassVar

from phalanx.scheduler.cycle.accepted import DURATION, Accepted
from phalanx.scheduler.cycle.arguments import Arguments, seconds
from phalanx.scheduler.cycle.hooks import ABSTAIN, PERMIT
from phalanx.scheduler.cycle.jobs import Job
from phalanx.scheduler.cycle.session import Session

KEYS = ("volcano.sh/sla-waiting-time", "sla-waiting-time")


class WaitingTime:
    """The plugin sla. Argument: `sla-waiting-time`, a duration such as 1h30m; no limit by
    default.
    """

    name = "sla"
    accepts: ClassVar[Accepted] = {"sla-waiting-time": DURATION}

    def __init__(self, arguments: Arguments) -> None:
        self._default = seconds(arguments.get("sla-waiting-time"))

    def open(self, session: Session) -> None:
        def deadline(job: Job) -> float:
            annotations = dict(job.spec.annotations)
            given = (seconds(annotations.get(key)) for key in KEYS)
            wait = next((w for w in given if w is not None), self._default)
            if wait is None:
                return float("inf")
            created = job.spec.created
            return float("-inf") if created is None else created + wait

        def vote(job: Job) -> int:
            return PERMIT if deadline(job) <= session.now else ABSTAIN

        session.add("job_order", self.name, deadline)
        session.add("job_enqueueable", self.name, vote)
        session.add("job_pipelined", self.name, vote)
