"""The plugin multifactor: orders a queue's waiting jobs by one number, as in Slurm.

    priority = sum of weight times factor, each factor from 0 to 1, minus nice

Weights are 0 unless the configuration names them, as in Slurm. Source: Slurm's page "Multifactor
Priority Plugin", and priority_multifactor.c of 22.05.8.
"""

from __future__ import annotations

from typing import ClassVar

from phalanx.scheduler.cycle.accepted import DURATION, NUMBER, Accepted
from phalanx.scheduler.cycle.arguments import Arguments, number, seconds
from phalanx.scheduler.cycle.jobs import Job
from phalanx.scheduler.cycle.session import Session
from phalanx.scheduler.plugin_parts.billing import ACCEPTS, terms_of
from phalanx.scheduler.plugin_parts.users import Users

MAX_AGE_S = 7 * 86400.0
FACTORS = ("age", "fairshare", "size", "class")


class Multifactor:
    """The plugin multifactor. Arguments: `ageWeight`, `fairshareWeight`, `sizeWeight`,
    `classWeight`; `maxAge` (168h); `halfLife`, `penalty` and `billing` as for fair-tree.

    The factors are:
    - age: the job's waiting time as a fraction of `maxAge`;
    - fairshare: Fair Tree's rank divided by the number of ranked jobs;
    - size: the job's request as a fraction of all nodes' capacity, in billing units;
    - class: the job's priority divided by the largest priority of any job.

    A priority below 0, such as that of `sbatch --nice`, is no factor: its points are subtracted.

    The priority of a queue is no factor, because it orders queues and not jobs.
    """

    name = "multifactor"
    accepts: ClassVar[Accepted] = {
        **ACCEPTS,
        "maxAge": DURATION,
        **{f"{factor}Weight": NUMBER for factor in FACTORS},
    }

    def __init__(self, arguments: Arguments) -> None:
        self._terms = terms_of(arguments)
        self._max_age_s = seconds(arguments.get("maxAge")) or MAX_AGE_S
        self._weights = {name: number(arguments, f"{name}Weight", 0.0) for name in FACTORS}

    def open(self, session: Session) -> None:
        cluster = session.cluster
        users = Users(session, self._terms)
        there = users.rate(cluster.capacity.sum(axis=0))
        classes = max((job.priority for job in cluster.jobs), default=0)

        def parts(job: Job) -> dict[str, float]:
            standing, created = users.standing(job), job.spec.created
            waited_s = 0.0 if created is None else session.now - created
            return {
                "age": _part(waited_s, self._max_age_s),
                "fairshare": 0.0 if standing is None else standing.rank / users.count(job),
                "size": _part(users.asked(job), there),
                "class": _part(job.priority, classes),
            }

        def priority(job: Job) -> float:
            weighed = sum(self._weights[name] * part for name, part in parts(job).items())
            return weighed + min(job.priority, 0)

        def factors(job: Job) -> dict[str, float]:
            weighed = {name: self._weights[name] * part for name, part in parts(job).items()}
            return {"total": priority(job), **weighed, "nice": max(-job.priority, 0)}

        session.add("job_order", self.name, lambda job: -priority(job))
        session.add("factors", self.name, factors)


def _part(some: float, of: float) -> float:
    return min(max(some / of, 0.0), 1.0) if of > 0 else 0.0
