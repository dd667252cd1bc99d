"""The result of a simulation: a record for each job, series over time, and measures of the whole
run. All values are frozen plain numbers and texts; `msgspec.json.encode` writes them.
"""

from __future__ import annotations

import msgspec


class JobRecord(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The events of one job in seconds of virtual time; None for events that did not happen."""

    name: str
    queue: str
    submit_s: float
    start_s: float | None
    finish_s: float | None
    work_s: float
    tasks: int
    gpus: float
    preemptions: int

    @property
    def delay_s(self) -> float | None:
        """The seconds from submission to the first start."""
        return None if self.start_s is None else self.start_s - self.submit_s

    @property
    def jct_s(self) -> float | None:
        """The job completion time: seconds from submission to the end."""
        return None if self.finish_s is None else self.finish_s - self.submit_s


class Series(msgspec.Struct, frozen=True, kw_only=True):
    """Columns of equal length; a row is added after a cycle (see `Rules.sample_s`).

    `allocated` is in units of `Measures.resource`. `fragmented_pct` is the percentage of the
    capacity that is idle but that typical jobs cannot use (see `fragmentation`).
    """

    time_s: tuple[float, ...]
    allocated: tuple[float, ...]
    running_jobs: tuple[int, ...]
    waiting_jobs: tuple[int, ...]
    fragmented_pct: tuple[float, ...]


class QueueMeasures(msgspec.Struct, frozen=True, kw_only=True):
    """The figures of one queue. The mean delay is that of jobs that started; all other means are
    those of jobs that finished. `slowdown_mean` is the mean of JCT divided by work. `share_pct` is
    the queue's percentage of everything that was allocated.
    """

    name: str
    weight: int
    jobs: int
    finished: int
    delay_mean_s: float
    jct_mean_s: float
    slowdown_mean: float
    share_pct: float


class Measures(msgspec.Struct, frozen=True, kw_only=True):
    """The figures of the whole run.

    Times are in seconds. Percentages are of the capacity of `resource` over `makespan_s`, the time
    from the first submission to the last finish. `allocation_pct` counts all held resources.
    `utilisation_pct` counts only useful work, without overheads and lost work. `jct_p99_s` is
    `sorted[int(0.99 n)]`. `fairness` is Jain's index over the queues' mean slowdowns; it is 1 if
    all queues have the same mean slowdown. `decisions_per_s` is the number of binds and evictions
    per second of decisions; None without a clock.
    """

    resource: str
    capacity: float
    jobs: int
    finished: int
    never_started: int
    allocation_pct: float
    utilisation_pct: float
    fragmented_pct: float
    delay_mean_s: float
    delay_p99_s: float
    jct_mean_s: float
    jct_p50_s: float
    jct_p99_s: float
    makespan_s: float
    fairness: float
    preemptions: int
    cycles: int
    decisions: int
    decisions_per_s: float | None


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one run. Plots show it under its `name`."""

    name: str
    jobs: tuple[JobRecord, ...]
    series: Series
    queues: tuple[QueueMeasures, ...]
    measures: Measures
