"""The plugin resourcequota: checks a namespace's hard limits before its jobs are let in.

Source: Volcano's resourcequota plugin. A job is let in if, for every resource that a quota of its
namespace names, the running tasks, the jobs let in, and the job's minimum together stay within the
quota. `requests.cpu` means cpu.
"""

from __future__ import annotations

from typing import ClassVar

from phalanx.scheduler.cycle import jobs as j
from phalanx.scheduler.cycle.accepted import Accepted
from phalanx.scheduler.cycle.arguments import Arguments
from phalanx.scheduler.cycle.hooks import PERMIT, REJECT
from phalanx.scheduler.cycle.jobs import Job
from phalanx.scheduler.cycle.plan import Rejection
from phalanx.scheduler.cycle.session import Session


class ResourceQuota:
    """The plugin resourcequota. It takes no arguments."""

    name = "resourcequota"
    accepts: ClassVar[Accepted] = {}

    def __init__(self, arguments: Arguments) -> None:
        del arguments

    def open(self, session: Session) -> None:
        quotas: dict[str, list[dict[str, float]]] = {}
        for q in session.snapshot.quotas:
            hard = {k.removeprefix("requests."): x for k, x in q.hard if "limits." not in k}
            quotas.setdefault(q.namespace, []).append(hard)
        used: dict[str, dict[str, float]] = {}
        for t, spec in enumerate(session.cluster.tasks):
            if spec.namespace in quotas and session.cluster.status[t] in j.HOLDING:
                mine = used.setdefault(spec.namespace, {})
                for name, x in (*spec.shape.request, ("pods", 1.0)):
                    mine[name] = mine.get(name, 0.0) + x

        def enqueueable(job: Job) -> int:
            least = job.spec.min_resources
            if least is None or job.spec.namespace not in quotas:
                return PERMIT
            have = used.get(job.spec.namespace, {})
            for hard in quotas[job.spec.namespace]:
                for name, x in least:
                    if name in hard and have.get(name, 0.0) + x > hard[name]:
                        detail = {"resource": name, "limit": hard[name], "asked": x,
                                  "would_use": have.get(name, 0.0) + x}  # fmt: skip
                        no = Rejection(reason="namespace-quota", detail=detail)
                        session.refuse(job, no, self.name)
                        return REJECT
            return PERMIT

        def enqueued(job: Job) -> None:
            if job.spec.namespace in quotas:
                mine = used.setdefault(job.spec.namespace, {})
                for name, x in job.spec.min_resources or ():
                    mine[name] = mine.get(name, 0.0) + x

        session.add("job_enqueueable", self.name, enqueueable)
        session.add("job_enqueued", self.name, enqueued)
