"""Rows of arrays in squeue: one for each running array task, and one for all waiting ones."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from phalanx.adapters.slurm.commands.numbers import array_task_or_job
from phalanx.adapters.slurm.commands.usage import address
from phalanx.cli.reach import ask
from phalanx.model.jobs import states as st
from phalanx.model.jobs.arrays import split_element
from phalanx.model.rows.work import ArrayTaskInfo, JobInfo
from phalanx.protocol.requests.jobs import GetJob, ListElements


def with_array_tasks(jobs: Iterable[JobInfo], ids: Sequence[str], one_each: bool) -> list[JobInfo]:
    """Return the jobs, with the unfinished array tasks in place of each unfinished array.

    `ids`: the asked ids; where they name array tasks, no others are returned. `one_each`: give
    waiting array tasks a row each, too.
    """
    found: list[JobInfo] = []
    for job in jobs:
        if not job.array or job.state in st.FINISHED:
            found.append(job)
            continue
        names = [array_task_or_job(one) for one in ids if one.partition("_")[0] == job.name]
        for name in [job.name] if job.name in names or not names else names:
            rows = ask(address(), ListElements(f"{job.namespace}/{name}"))
            found += [one for row in rows for one in _elements(job, row, one_each)]
    return found


def _elements(array: JobInfo, row: ArrayTaskInfo, one_each: bool) -> list[JobInfo]:
    """Yield unfinished array tasks among equal ones."""
    if row.state in st.FINISHED:
        return []
    name, indices = split_element(row.name) or (row.name, "")
    if row.state not in (st.WAITING, st.PENDING):
        of = [f"{name}[{one}]" for one in _each(indices)]
        return [ask(address(), GetJob(f"{array.namespace}/{one}")) for one in of]
    _, _, limit = array.array.partition("%")
    several = f"[{indices}%{limit}]" if limit else f"[{indices}]"
    waits = msgspec.structs.replace(
        array, state=st.PENDING, replicas=1, ran_s=0.0, started=None, ends=None,
        reason=row.reason or _why(array, limit),
    )  # fmt: skip
    names = [f"[{one}]" for one in _each(indices)] if one_each else [several]
    return [msgspec.structs.replace(waits, name=name + one) for one in names]


def _why(array: JobInfo, limit: str) -> str:
    if limit and array.running >= int(limit):
        return "JobArrayTaskLimit"
    return array.reason if array.state == st.PENDING else ""


def _each(indices: str) -> list[str]:
    """Return the indices of texts such as `3-5` and `1,7-9:2`, one by one."""
    found: list[str] = []
    for part in indices.split(","):
        ends, _, step = part.partition(":")
        first, _, last = ends.partition("-")
        found += map(str, range(int(first), int(last or first) + 1, int(step or 1)))
    return found
