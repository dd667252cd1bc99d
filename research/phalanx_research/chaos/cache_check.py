"""Checks that the scheduler's cache, which events update, equals a newly built cache."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from phalanx.head.gangs.gang_scheduler import GangScheduler
from phalanx.scheduler.cycle import jobs as j
from phalanx.scheduler.cycle.cluster import Cluster
from phalanx_research.chaos.broken import Broken

BOOKS = ("idle", "used", "releasing", "future", "asked", "seats")


def check_cache(scheduler: GangScheduler) -> None:
    """Raise Broken if the cache differs from a newly built cache."""
    found = next(differences(scheduler), "")
    if found:
        raise Broken(f"the scheduler's cache is not what it should be: {found}", ["head"])


def differences(scheduler: GangScheduler) -> Iterator[str]:
    """Yield a description of each difference between the cache and a newly built cache."""
    patched = scheduler.snapshots.patched_cluster()
    read = scheduler.snapshots.read_cluster()
    for what, mine, theirs in (
        ("nodes", patched.nodes, read.nodes),
        ("queues", patched.queues, read.queues),
    ):
        if mine != theirs:
            yield f"its {what} are {mine}, and there are {theirs}"
            return
    yield from _compare("task", _tasks(patched), _tasks(read))
    yield from _compare("podgroup", _jobs(patched), _jobs(read))
    names = read.dims.names
    columns = [patched.dims.index[name] for name in names]
    for book in BOOKS:
        mine, theirs = getattr(patched, book), getattr(read, book)
        mine = mine[:, columns] if mine.ndim > 1 else mine
        if not np.array_equal(mine, theirs):
            at = int(np.flatnonzero((mine != theirs).reshape(len(mine), -1).any(axis=1))[0])
            node = read.node_names[at]
            yield f"{book} of {node[:12]} is {mine[at]}, not {theirs[at]}, of {names}"


def _tasks(cluster: Cluster) -> dict[str, Any]:
    return {
        cluster.task_uid[t]: (j.STATUS_NAMES[cluster.status[t]], cluster.node_of[t])
        for job in cluster.jobs
        for t in job.tasks
    }


def _jobs(cluster: Cluster) -> dict[str, Any]:
    return {
        job.uid: (
            job.counts, job.min_available, job.role_min, job.priority, job.queue,
            job.spec.promised, {cluster.job_of[t] for t in job.tasks} <= {job.index},
        )
        for job in cluster.jobs
    }  # fmt: skip


def _compare(what: str, mine: dict[str, Any], theirs: dict[str, Any]) -> Iterator[str]:
    for name in sorted(mine.keys() | theirs.keys()):
        if mine.get(name) != theirs.get(name):
            yield f"{what} {name} is {mine.get(name)}, not {theirs.get(name)}"
