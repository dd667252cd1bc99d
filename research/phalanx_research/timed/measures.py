"""The measures of a run, computed from job records and series."""

from __future__ import annotations

from collections.abc import Sequence

from phalanx.scheduler.cycle.specs import QueueSpec
from phalanx_research.timed.result import JobRecord, QueueMeasures, Series


def mean(values: Sequence[float]) -> float:
    """Return the mean; 0 if there are no values."""
    return sum(values) / len(values) if values else 0.0


def quantile(values: Sequence[float], q: float) -> float:
    """Return the quantile as the published tables define it, `sorted[int(q n)]`; 0 if there are no
    values.
    """
    return sorted(values)[min(int(q * len(values)), len(values) - 1)] if values else 0.0


def jain(values: Sequence[float]) -> float:
    """Return Jain's index of fairness, (sum x)^2 / (n * sum x^2).

    The index is 1 if all values are equal, and 1/n if all values but one are 0. Source: Jain, Chiu,
    Hawe, DEC-TR-301 (1984).
    """
    squares = sum(x * x for x in values)
    return sum(values) ** 2 / (len(values) * squares) if squares else 1.0


def over_time(series: Series, column: Sequence[float]) -> float:
    """Return the mean over time of a column of the series. Each row lasts until the next row."""
    times = series.time_s
    span = times[-1] - times[0] if times else 0.0
    if not span:
        return column[0] if column else 0.0
    held = (column[i] * (times[i + 1] - times[i]) for i in range(len(times) - 1))
    return sum(held) / span


def by_queue(
    records: Sequence[JobRecord], queues: Sequence[QueueSpec], held: dict[str, float]
) -> tuple[QueueMeasures, ...]:
    """Return a row for each queue, by the queue's name. `held` has each queue's
    resource-seconds.
    """
    mine: dict[str, list[JobRecord]] = {queue.name: [] for queue in queues}
    for record in records:
        mine[record.queue].append(record)
    total = sum(held.values())
    return tuple(
        _queue(queue, mine[queue.name], 100 * held.get(queue.name, 0.0) / total if total else 0.0)
        for queue in sorted(queues, key=lambda queue: queue.name)
    )


def _queue(queue: QueueSpec, records: Sequence[JobRecord], share_pct: float) -> QueueMeasures:
    jcts = [r.jct_s for r in records if r.jct_s is not None]
    return QueueMeasures(
        name=queue.name,
        weight=queue.weight,
        jobs=len(records),
        finished=len(jcts),
        delay_mean_s=mean([r.delay_s for r in records if r.delay_s is not None]),
        jct_mean_s=mean(jcts),
        slowdown_mean=mean(
            [r.jct_s / r.work_s for r in records if r.jct_s is not None and r.work_s > 0]
        ),
        share_pct=share_pct,
    )
