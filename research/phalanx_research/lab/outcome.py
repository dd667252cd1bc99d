"""The figures of a lab's day: waits and expected starts by kind of work, GPUs, and kept
promises.
"""

from __future__ import annotations

import msgspec

from phalanx.model.ids import JobId
from phalanx.model.jobs import states as st
from phalanx.model.jobs.arrays import array_task_uid, split_element
from phalanx.model.jobs.records import JobRecord
from phalanx_research.lab.day import Day
from phalanx_research.lab.estimates import Held, quantile
from phalanx_research.lab.giving_way import GaveWay, gave_way
from phalanx_research.lab.work import Submission


class KindFigures(msgspec.Struct, frozen=True, kw_only=True):
    """Figures of one kind of work. Waits are the seconds from the submission, or from the end of
    the job's dependencies, to the first start. The wait of an array is that of its first array
    task.
    """

    kind: str
    jobs: int
    starts: int
    """The number of jobs and array tasks that started."""
    wait_p50_s: float
    wait_p90_s: float
    wait_p99_s: float
    gpu_hours: float
    expected: Held | None
    """The quality of the start times that users were shown; None if none was shown."""


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """The figures of the whole day. Equal arguments give equal outcomes, with equal `digest`."""

    kinds: tuple[KindFigures, ...]
    expected: Held | None
    learnt: tuple[int, int, int]
    """The numbers of starts before, between and after the two times that were estimated from past
    run times.
    """
    nobody_knew: int
    """The number of jobs and array tasks without an estimated start when they were first seen
    waiting.
    """
    busy_pct: float
    """The percentage of all GPUs that were in use during the hours in which users submit."""
    busiest_pct: float
    """The percentage of all GPUs that were in use in the busiest hour."""
    states: dict[str, int]
    """The number of jobs by final state."""
    elements: int
    gave_way: GaveWay
    gave_up: int
    refused: tuple[str, ...]
    attempts: int
    """The number of records in the history."""
    heads: int
    promises_met: int
    """The number of promises in force when a head died. Broken promises are in `lost`."""
    lost: tuple[str, ...]
    """Descriptions of broken promises, and of missing jobs, array tasks, records and
    reservations.
    """
    hours: float
    """The hours until all work had ended."""
    digest: str


def outcome(day: Day) -> Outcome:
    """Return the outcome of a day that has run."""
    day.gpus.settle()
    records = {job.uid: job for job in day.records()}
    elements: dict[str, list[str]] = {}
    for uid in day.estimates.started:
        found = split_element(uid)
        elements.setdefault(uid if found is None else found[0], []).append(uid)
    by_kind: dict[str, list[Submission]] = {}
    for one in day.work:
        by_kind.setdefault(one.kind, []).append(one)
    hours = int(day.size.hours)
    used = [day.gpus.hours.get(hour, 0.0) / 3_600 for hour in range(hours)]
    states: dict[str, int] = {}
    for job in records.values():
        states[job.state] = states.get(job.state, 0) + 1
    attempts = [row.attempt for row in day.store.history.rows.values()]
    return Outcome(
        kinds=tuple(_kind(day, kind, work, records, elements) for kind, work in by_kind.items()),
        expected=day.estimates.held(day.estimates.said),
        learnt=day.estimates.within(),
        nobody_knew=len(day.estimates.unknown),
        busy_pct=100 * sum(used) / (hours * day.gpus.total),
        busiest_pct=100 * max(used) / day.gpus.total,
        states=dict(sorted(states.items())),
        elements=sum(one.spec.array.count for one in day.work if one.spec.array is not None),
        gave_way=gave_way(attempts, {one.spec.name: one.kind for one in day.work}),
        gave_up=len(day.gave_up),
        refused=tuple(day.refused),
        attempts=len(attempts),
        heads=day.heads,
        promises_met=day.promises_met,
        lost=(*day.broken, *_lost(day, records)),
        hours=day.kernel.now / 3_600,
        digest=day.kernel.digest(),
    )


def _kind(
    day: Day,
    kind: str,
    work: list[Submission],
    records: dict[JobId, JobRecord],
    elements: dict[str, list[str]],
) -> KindFigures:
    waits = []
    for one in work:
        started = [day.estimates.started[uid] for uid in elements.get(one.spec.uid, ())]
        job = records.get(one.spec.uid)
        if started and job is not None:
            since = job.submitted if job.queued is None else job.queued
            waits.append(max(0.0, min(started) - (since - day.estimates.midnight)))
    uids = [uid for one in work for uid in elements.get(one.spec.uid, ())]
    return KindFigures(
        kind=kind,
        jobs=len(work),
        starts=len(uids),
        wait_p50_s=quantile(waits, 0.5),
        wait_p90_s=quantile(waits, 0.9),
        wait_p99_s=quantile(waits, 0.99),
        gpu_hours=day.gpus.seconds.get(kind, 0.0) / 3_600,
        expected=day.estimates.held(uids),
    )


def _lost(day: Day, records: dict[JobId, JobRecord]) -> list[str]:
    """Return descriptions of everything that was accepted and then lost."""
    found = []
    refused = {text.partition(":")[0] for text in day.refused}
    of_history = {
        (row.attempt.job, row.attempt.namespace) for row in day.store.history.rows.values()
    }
    for one in day.work:
        spec = one.spec
        job = records.get(spec.uid)
        if spec.name in refused:
            continue
        if job is None:
            found.append(f"job {spec.name} is no longer known")
            continue
        if not job.is_finished:
            found.append(f"job {spec.name} is {job.state}: {job.reason}")
        positions = range(0 if spec.array is None else spec.array.count)
        uids = [array_task_uid(spec.uid, i) for i in positions] or [spec.uid]
        for uid in uids:
            has_run = uid in day.estimates.started
            if has_run and (uid.partition("/")[2], spec.namespace) not in of_history:
                found.append(f"{uid} ran, but the history does not have it")
            if not has_run and job.state == st.COMPLETED:
                found.append(f"{uid} never ran, but {spec.name} is completed")
    return found
