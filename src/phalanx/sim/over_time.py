"""`phalanx simulate --arrival time`: jobs at their own times, decided by the batch session."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path

from phalanx.batch.config import Configuration, parse_volcano
from phalanx.batch.registry import known_plugins
from phalanx.batch.specs import QueueSpec
from phalanx.errors import BatchFileError, PhalanxError
from phalanx.sim.report.run import Curve, ReportRun
from phalanx.sim.timed import CLASSIC, Progress, Result, classic, from_trace, read_queues, simulate
from phalanx.sim.traces.records import TraceJob, TraceNode


class UnknownJobPolicyError(PhalanxError, ValueError):
    """No job policy has this name."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name

    def __str__(self) -> str:
        return (
            f"there is no policy {self.name!r}; there are: {', '.join(CLASSIC)}, "
            "and any scheduler configuration (.yaml)"
        )


def run_policy(
    nodes: Sequence[TraceNode],
    jobs: Sequence[TraceJob],
    policy: str,
    queues: Path | None,
    tell: Callable[[float, float], None],
) -> ReportRun:
    """Simulate the jobs under a classic policy or a configuration file.

    Without a file of queues each queue that a job names has weight 1. Raises PhalanxError.
    """
    config = _configuration(policy)
    machines, work = from_trace(nodes, jobs, overheads=any(job.workload for job in jobs))
    if queues is None:
        known = tuple(QueueSpec(name=name) for name in sorted({job.queue for job in jobs}))
    else:
        known = read_queues(_text(str(queues)), str(queues))

    def progress(state: Progress) -> None:
        tell(state.finished, state.jobs)

    result = simulate(
        work,
        machines,
        config=config,
        queues=known,
        name=policy,
        clock=time.perf_counter,
        progress=progress,
    )
    return _shown(result)


def _configuration(policy: str) -> Configuration:
    if policy in CLASSIC:
        return classic(policy)
    if Path(policy).suffix in (".yaml", ".yml"):
        return parse_volcano(_text(policy), known_plugins(), policy)
    raise UnknownJobPolicyError(policy)


def _text(file: str) -> str:
    try:
        return Path(file).read_text(encoding="utf-8")
    except OSError as error:
        raise BatchFileError(error.strerror or str(error), file) from error


def _shown(result: Result) -> ReportRun:
    measures, series = result.measures, result.series
    begin = series.time_s[0] if series.time_s else 0.0
    x = [t - begin for t in series.time_s]
    per = 100 / measures.capacity if measures.capacity else 0.0
    figures = {name: getattr(measures, name) for name in measures.__struct_fields__}
    return ReportRun(
        name=result.name,
        figures=figures,
        curves={
            "over_time": Curve(x=x, y=[v * per for v in series.allocated]),
            "waiting": Curve(x=x, y=[float(v) for v in series.waiting_jobs]),
        },
        jct_s=[job.jct_s for job in result.jobs if job.jct_s is not None],
    )
