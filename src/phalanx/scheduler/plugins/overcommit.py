"""The plugin overcommit: lets in jobs for slightly more than the cluster holds.

Source: Volcano's overcommit plugin. A job is let in if, for every resource of its minimum, promised
+ minimum <= total * f - used. The factor f of a resource is its own factor or, if it has none, the
general one. A factor below 1 counts as 1.2.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from phalanx.scheduler.cycle.accepted import NUMBER, Accepted
from phalanx.scheduler.cycle.accounts import promised_to
from phalanx.scheduler.cycle.amounts import over_requested
from phalanx.scheduler.cycle.arguments import Arguments, number
from phalanx.scheduler.cycle.hooks import PERMIT, REJECT
from phalanx.scheduler.cycle.jobs import Job
from phalanx.scheduler.cycle.plan import Rejection
from phalanx.scheduler.cycle.session import Session

_FACTOR = 1.2


class Overcommit:
    """The plugin overcommit. Arguments: `overcommit-factor` (1.2), and
    `overcommit-factor.<resource>` for one resource.
    """

    name = "overcommit"
    accepts: ClassVar[Accepted] = {"overcommit-factor": NUMBER, "overcommit-factor.*": NUMBER}

    def __init__(self, arguments: Arguments) -> None:
        def factor(key: str, default: float) -> float:
            given = number(arguments, key, default)
            return given if given >= 1 else _FACTOR

        prefix = "overcommit-factor."
        self.factor = factor("overcommit-factor", _FACTOR)
        self.factors = {
            key.removeprefix(prefix): factor(key, self.factor)
            for key in arguments
            if key.startswith(prefix)
        }

    def open(self, session: Session) -> None:
        cluster = session.cluster
        dims = cluster.dims
        used = cluster.used.sum(axis=0).astype(np.float64)
        factors = np.full(len(dims), self.factor)
        for name, factor in self.factors.items():
            if name in dims.index:
                factors[dims.index[name]] = factor
        limit = cluster.total.v * factors - used
        promised = dims.empty()
        for job in (job for job in cluster.jobs if job.min_resources is not None):
            promised.add(promised_to(cluster, job))

        def enqueueable(job: Job) -> int:
            if job.min_resources is None:
                return PERMIT
            least = job.min_resources.v
            over = over_requested(dims, promised.v + least, limit, least)
            if not over:
                return PERMIT
            for r in over:
                session.refuse(
                    job,
                    Rejection(
                        reason="cluster-overcommitted",
                        detail={
                            "resource": dims.names[r],
                            "asked": dims.written(r, float(least[r])),
                            "left": dims.written(r, float(limit[r] - promised.v[r])),
                        },
                    ),
                    self.name,
                )
            return REJECT

        def enqueued(job: Job) -> None:
            if job.min_resources is not None:
                promised.add(job.min_resources)

        session.add("job_enqueueable", self.name, enqueueable)
        session.add("job_enqueued", self.name, enqueued)
