"""The figures of a lab's day: waits and expected starts of each kind of work, GPUs, what held."""

from __future__ import annotations

import msgspec

from phalanx.model.jobs import states as st
from phalanx.model.jobs.arrays import array_task_uid, split_element
from phalanx.model.jobs.records import JobRecord
from phalanx_research.lab.day import Day
from phalanx_research.lab.estimates import Held, quantile
from phalanx_research.lab.giving_way import GaveWay, gave_way
from phalanx_research.lab.work import Submission


class KindFigures(msgspec.Struct, frozen=True, kw_only=True):
    """Of one kind of work. Waits are from the submission, or from when what it comes after had
    ended, to the first start; of arrays, to that of their first element. In seconds."""

    kind: str
    jobs: int
    starts: int
    """Of jobs and elements, each once."""
    wait_p50_s: float
    wait_p90_s: float
    wait_p99_s: float
    gpu_hours: float
    expected: Held | None
    """How good it was what people were told of their starts."""


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """A whole day. Equal arguments give an equal outcome, `digest` included."""

    kinds: tuple[KindFigures, ...]
    expected: Held | None
    learnt: tuple[int, int, int]
    """Of starts with two times, as run times were learnt: before them, between, and after."""
    nobody_knew: int
    """Of whom no start was said when they were first seen to wait."""
    busy_pct: float
    """Of all GPUs, while people submit."""
    busiest_pct: float
    """The same in the best hour."""
    states: dict[str, int]
    """How jobs ended."""
    elements: int
    gave_way: GaveWay
    gave_up: int
    refused: tuple[str, ...]
    attempts: int
    """Records in the history."""
    heads: int
    promises_met: int
    """So many had a promise when a head died; who lost it is in `lost`."""
    lost: tuple[str, ...]
    """Broken promises: jobs, elements, records and reservations that are not there any more."""
    hours: float
    """Until all was over."""
    digest: str


def outcome(day: Day) -> Outcome:
    """What came of a day that has run."""
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
    records: dict[str, JobRecord],
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


def _lost(day: Day, records: dict[str, JobRecord]) -> list[str]:
    """What was taken and is not accounted for."""
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
            found.append(f"job {spec.name} is not known any more")
            continue
        if not job.is_finished:
            found.append(f"job {spec.name} is {job.state}: {job.reason}")
        positions = range(0 if spec.array is None else spec.array.count)
        uids = [array_task_uid(spec.uid, i) for i in positions] or [spec.uid]
        for uid in uids:
            has_run = uid in day.estimates.started
            if has_run and (uid.partition("/")[2], spec.namespace) not in of_history:
                found.append(f"{uid} ran, and the history does not know it")
            if not has_run and job.state == st.COMPLETED:
                found.append(f"{uid} never ran, and {spec.name} is completed")
    return found
