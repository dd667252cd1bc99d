"""Rows of arrays in squeue: one for each running array task, and one for all waiting array
tasks.
"""

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

_FIRST = {st.WAITING: 0, st.PENDING: 1}
"""The number of starts recorded for an array task that has never begun, by the task's state. For a
task that waits for resources, one start is already recorded.
"""


def with_array_tasks(jobs: Iterable[JobInfo], ids: Sequence[str], one_each: bool) -> list[JobInfo]:
    """Return the jobs, with the unfinished array tasks in place of each unfinished array.

    `ids`: the ids that the options name. If some of them name array tasks of an array, only these
    array tasks of it are returned. `one_each`: whether each waiting array task is a job of its own
    in the result.
    """
    found: list[JobInfo] = []
    for job in jobs:
        if not job.array or job.state in st.FINISHED:
            found.append(job)
            continue
        names = [array_task_or_job(one) for one in ids if one.partition("_")[0] == job.name]
        rows: list[ArrayTaskInfo] = []
        for name in [job.name] if job.name in names or not names else names:
            listed = ask(address(), ListElements(f"{job.namespace}/{name}"))
            rows += listed
        found += _array_tasks(job, rows, one_each)
    return found


def _array_tasks(array: JobInfo, rows: Sequence[ArrayTaskInfo], one_each: bool) -> list[JobInfo]:
    """Return a job for each running array task, and one job for all waiting array tasks. With
    `one_each`, return a job for each waiting array task, too.
    """
    living = [row for row in rows if row.state not in st.FINISHED]
    waiting = [row for row in living if _has_not_begun(row)]
    found: list[JobInfo] = []
    for row in living:
        if not _has_not_begun(row):
            of = [f"{array.name}[{one}]" for one in each_index(_indices(row))]
            found += [ask(address(), GetJob(f"{array.namespace}/{one}")) for one in of]
    if not waiting:
        return found
    _, _, limit = array.array.partition("%")
    waits = msgspec.structs.replace(
        array, state=st.PENDING, replicas=1, ran_s=0.0, started=None, ends=None,
        reason=waiting[0].reason or _why(array, limit),
    )  # fmt: skip
    texts = [_indices(row) for row in waiting]
    if one_each:
        names = [f"[{one}]" for text in texts for one in each_index(text)]
    else:
        names = [f"[{joined(texts)}%{limit}]" if limit else f"[{joined(texts)}]"]
    return [*found, *(msgspec.structs.replace(waits, name=array.name + one) for one in names)]


def _has_not_begun(row: ArrayTaskInfo) -> bool:
    return row.starts <= _FIRST.get(row.state, -1)


def joined(texts: Sequence[str]) -> str:
    """Return the indices in several texts such as `3`, `4-9` and `20-40:5` as one text, in
    ascending order.
    """
    parts = [_range(part) for text in texts for part in text.split(",")]
    found: list[list[int]] = []
    for first, last, step in sorted(parts):
        is_next = found and found[-1][2] == step == 1 and found[-1][1] + 1 == first
        if is_next:
            found[-1][1] = last
        else:
            found.append([first, last, step])
    ends = [f"{first}-{last}" if last > first else f"{first}" for first, last, _ in found]
    steps = [f":{step}" if step > 1 else "" for _, _, step in found]
    return ",".join(end + step for end, step in zip(ends, steps, strict=True))


def _indices(row: ArrayTaskInfo) -> str:
    return (split_element(row.name) or ("", ""))[1]


def _why(array: JobInfo, limit: str) -> str:
    if limit and array.running >= int(limit):
        return "JobArrayTaskLimit"
    return array.reason if array.state == st.PENDING else ""


def _range(part: str) -> tuple[int, int, int]:
    """Return (first, last, step) of `7`, `7-9` or `7-9:2`."""
    ends, _, step = part.partition(":")
    first, _, last = ends.partition("-")
    return int(first), int(last or first), int(step or 1)


def each_index(indices: str) -> list[str]:
    """Return each index in a text such as `3-5` or `1,7-9:2`."""
    found: list[str] = []
    for part in indices.split(","):
        first, last, step = _range(part)
        found += map(str, range(first, last + 1, step))
    return found
