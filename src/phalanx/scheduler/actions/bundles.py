"""Divides the tasks of a gang into bundles, each of which is evicted as a whole: the tasks above
the gang's minimum, and the other tasks.

Source: Volcano's gang-aware eviction. The tasks above the minimums of a job, of its roles and of
its subgroups can be evicted without harm. In each domain, such tasks form a safe bundle. The job's
other tasks there form a whole bundle, whose eviction breaks the gang.

A subgroup policy may have more ready subgroups than it needs. The surplus subgroups may be broken,
and a broken subgroup protects none of its tasks. All tasks of a job that is already below its
minimum are safe.

Bundles are ordered by kind, then by the order of jobs or queues, then by return: the needed
resources that are freed in the domain, divided by all resources that are freed if the gang breaks.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from phalanx.scheduler.cycle.amounts import Vector
from phalanx.scheduler.cycle.cluster import Cluster
from phalanx.scheduler.cycle.jobs import Job, SubJob


@dataclass(frozen=True, kw_only=True)
class Bundle:
    """Tasks of one job that are evicted together. `whole`: whether their eviction breaks the gang.
    `here`: the requests of these tasks. `elsewhere`: the requests of all tasks of the job; zero
    unless the eviction breaks the gang.
    """

    whole: bool
    job: Job
    tasks: tuple[int, ...]
    here: Vector
    elsewhere: Vector


def bundles_of(cluster: Cluster, job: Job, local: Iterable[int]) -> list[Bundle]:
    """Return the job's tasks in one domain (`local`), divided into at most one safe bundle and one
    whole bundle.
    """
    tasks = sorted(local, key=lambda t: (cluster.tasks[t].priority, t))
    surplus = job.ready_count() - job.min_available
    by_role: dict[str, int] = {}
    if job.roles_matter():
        by_role = {role: job.role_count(role) - n for role, n in job.role_min.items()}
    parts = _Parts(job)
    safe: list[int] = []
    rest: list[int] = []
    if surplus < 0:
        safe = tasks
    else:
        for t in tasks:
            role = cluster.eq_class[t].shape.role
            if surplus > 0 and by_role.get(role, 1) > 0 and parts.give_up_one(cluster.sub_of(t)):
                safe.append(t)
                surplus -= 1
                if role in by_role:
                    by_role[role] -= 1
            else:
                rest.append(t)
    nothing = cluster.total.v * 0.0
    out = []
    if safe:
        out.append(_bundle(cluster, job, safe, whole=False, elsewhere=nothing))
    if rest:
        everything = _sum(cluster, job.tasks)
        out.append(_bundle(cluster, job, rest, whole=True, elsewhere=everything))
    return out


class _Parts:
    """Counts the tasks that each part of a job still has, and the subgroups that each subgroup
    policy can still spare.
    """

    def __init__(self, job: Job) -> None:
        self._left = {sub.uid: sub.ready_count() for sub in job.subjobs.values()}
        self._spare = {gid: -least for gid, least in job.min_subjobs.items()}
        for sub in job.subjobs.values():
            if sub.gid in self._spare:
                self._spare[sub.gid] += sub.ready_count() >= sub.min_available

    def give_up_one(self, sub: SubJob | None) -> bool:
        """Give up one task of a part if the part can spare it. Returns whether it could."""
        if sub is None or sub.gid not in self._spare:
            return True
        left = self._left[sub.uid]
        if left == sub.min_available:
            if self._spare[sub.gid] <= 0:
                return False
            self._spare[sub.gid] -= 1
        self._left[sub.uid] = left - 1
        return True


def approved(cluster: Cluster, bundles: Sequence[Bundle], allowed: set[int]) -> list[Bundle]:
    """Return the bundles, each reduced to its tasks in `allowed`. A whole bundle is dropped if any
    of its tasks is not allowed.
    """
    out = []
    for b in bundles:
        kept = [t for t in b.tasks if t in allowed]
        if b.whole:
            if len(kept) == len(b.tasks):
                out.append(b)
        elif kept:
            out.append(_bundle(cluster, b.job, kept, whole=False, elsewhere=b.elsewhere))
    return out


def one_by_one(cluster: Cluster, bundles: Iterable[Bundle]) -> list[Bundle]:
    """Divide safe bundles into single tasks, so that no more tasks are evicted than needed."""
    out = []
    for b in bundles:
        cut = [b.tasks] if b.whole else [(t,) for t in b.tasks]
        out += [
            _bundle(cluster, b.job, tasks, whole=b.whole, elsewhere=b.elsewhere) for tasks in cut
        ]
    return out


def ordered(
    bundles: Sequence[Bundle], need: Vector, compare: Callable[[Job, Job], int]
) -> list[Bundle]:
    """Sort bundles: safe ones before whole ones, then by `compare` of their jobs, then those with
    the highest return first.
    """

    def order(a: Bundle, b: Bundle) -> int:
        if a.whole != b.whole:
            return 1 if a.whole else -1
        if a.job is not b.job:
            answer = compare(a.job, b.job)
            if answer:
                return answer
        mine, theirs = _return(a, need), _return(b, need)
        if mine != theirs:
            return -1 if mine > theirs else 1
        ka, kb = (a.job.uid, a.tasks[0], len(a.tasks)), (b.job.uid, b.tasks[0], len(b.tasks))
        return (ka > kb) - (ka < kb)

    return sorted(bundles, key=functools.cmp_to_key(order))


def _bundle(
    cluster: Cluster, job: Job, tasks: Sequence[int], *, whole: bool, elsewhere: Vector
) -> Bundle:
    return Bundle(
        whole=whole,
        job=job,
        tasks=tuple(tasks),
        here=_sum(cluster, tasks),
        elsewhere=elsewhere,
    )


def _return(bundle: Bundle, need: Vector) -> float:
    here = elsewhere = 0.0
    for r, n in enumerate(need.tolist()):
        if n > 0:
            here += min(float(bundle.here[r]), n) / n
            elsewhere += float(bundle.elsewhere[r]) / n
    return float("inf") if elsewhere == 0 else here / elsewhere


def _sum(cluster: Cluster, tasks: Iterable[int]) -> Vector:
    total: Vector = cluster.total.v * 0.0
    for t in tasks:
        total = total + cluster.eq_class[t].vector
    return total
