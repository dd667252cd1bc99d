"""Computes the result of a run from everything that was recorded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from phalanx.scheduler.cycle.specs import QueueSpec
from phalanx_research.timed.measures import by_queue, jain, mean, over_time, quantile
from phalanx_research.timed.progress import Work
from phalanx_research.timed.recorder import Recorder
from phalanx_research.timed.result import JobRecord, Measures, Result
from phalanx_research.timed.workload import GPU


def summarise(
    *,
    name: str,
    works: Sequence[Work],
    queues: Sequence[QueueSpec],
    recorder: Recorder,
    resource: str,
    useful: float,
    held: Mapping[str, float],
    end_s: float,
    cycles: int,
    decisions: int,
    deciding_s: float | None,
) -> Result:
    """Return the result of a run.

    `useful`: resource-seconds of useful work. `held`: resource-seconds by queue. `end_s`: the
    virtual time at which the run ended.
    """
    records = tuple(_record(work) for work in works)
    series = recorder.series()
    rows = by_queue(records, queues, dict(held))
    finishes = [r.finish_s for r in records if r.finish_s is not None]
    jcts = [r.jct_s for r in records if r.jct_s is not None]
    delays = [r.delay_s for r in records if r.delay_s is not None]
    first = min((r.submit_s for r in records), default=0.0)
    whole = len(finishes) == len(records) and bool(finishes)
    makespan = (max(finishes) if whole else end_s) - first
    room = recorder.capacity * makespan
    measures = Measures(
        resource=resource,
        capacity=recorder.capacity,
        jobs=len(records),
        finished=len(finishes),
        never_started=len(records) - len(delays),
        allocation_pct=100 * recorder.area / room if room else 0.0,
        utilisation_pct=100 * useful / room if room else 0.0,
        fragmented_pct=over_time(series, series.fragmented_pct),
        delay_mean_s=mean(delays),
        delay_p99_s=quantile(delays, 0.99),
        jct_mean_s=mean(jcts),
        jct_p50_s=quantile(jcts, 0.5),
        jct_p99_s=quantile(jcts, 0.99),
        makespan_s=makespan,
        fairness=jain([row.slowdown_mean for row in rows if row.finished]),
        preemptions=sum(r.preemptions for r in records),
        cycles=cycles,
        decisions=decisions,
        decisions_per_s=decisions / deciding_s if deciding_s else None,
    )
    return Result(name=name, jobs=records, series=series, queues=rows, measures=measures)


def _record(work: Work) -> JobRecord:
    job = work.job
    return JobRecord(
        name=job.name,
        queue=job.queue,
        submit_s=job.submit_s,
        start_s=work.start,
        finish_s=work.finish,
        work_s=job.work_s,
        tasks=job.size,
        gpus=job.amount(GPU),
        preemptions=work.preemptions,
    )
