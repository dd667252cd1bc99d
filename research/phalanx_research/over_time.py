"""`phalanx simulate --arrival time`: jobs arrive at their own times, and the head's scheduler
decides about them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from phalanx.errors import BatchFileError, PhalanxError
from phalanx.scheduler.cycle.config import Configuration, parse_volcano
from phalanx.scheduler.cycle.registry import known_plugins
from phalanx.scheduler.cycle.specs import QueueSpec
from phalanx.scheduler.placement.fragmentation.catalogue import POLICIES, UnknownPolicyError
from phalanx_research.report.run import Curve, Figure, ReportRun
from phalanx_research.timed import (
    CLASSIC,
    PUBLISHED,
    PUBLISHED_POLICIES,
    Measures,
    Progress,
    QueueMeasures,
    Result,
    Rules,
    WorkloadError,
    classic,
    from_trace,
    placed,
    read_queues,
    simulate,
)
from phalanx_research.timed.studied import STUDIED, simulate_studied
from phalanx_research.traces.records import TraceJob, TraceNode

INTERVALS = 240
"""The number of points of a line over time."""


class UnknownTimedPolicyError(PhalanxError, ValueError):
    """Raised for a name that is neither a job policy nor a node policy."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name

    def __str__(self) -> str:
        return (
            f"there is no policy {self.name!r}; there are: {', '.join((*CLASSIC, *POLICIES))}, "
            f"with --rules muri {', '.join((*PUBLISHED_POLICIES, *STUDIED))}, "
            "and any scheduler configuration (.yaml)"
        )


class RulesError(PhalanxError, ValueError):
    """Raised for a policy that does not exist under the chosen rules."""


CLUSTER = Rules()
"""The rules of a cluster that may evict in every cycle."""


@dataclass(frozen=True, kw_only=True)
class Chosen:
    """A policy, and how jobs are simulated under it. With a configuration, jobs run under this
    configuration and these rules; with `pooled`, all GPUs count as those of one machine. Without a
    configuration, the policy is a studied policy.
    """

    name: str
    config: Configuration | None
    rules: Rules = CLUSTER
    pooled: bool = False


def usable_policy(policy: str, *, published: bool = False) -> Chosen:
    """Return the policy of a name or of a file (.yaml, .yml). Jobs run under a cluster's rules or,
    with `published`, under the rules of Muri's simulator.

    Raises UnknownTimedPolicyError, RulesError, and BatchFileError for a faulty file.
    """
    name = policy.lower()
    if published and name in PUBLISHED_POLICIES:
        config = classic(name, anew=True)
        return Chosen(name=policy, config=config, rules=PUBLISHED, pooled=name == "tiresias")
    if name in STUDIED:
        if not published:
            raise RulesError(f"no cluster runs the policy {policy!r}; it needs --rules muri")
        return Chosen(name=policy, config=None)
    config = _configuration(policy)
    if published:
        raise RulesError(
            f"--rules muri has no policy {policy!r}; "
            f"it has {', '.join((*PUBLISHED_POLICIES, *STUDIED))}"
        )
    return Chosen(name=policy, config=config)


def _configuration(policy: str) -> Configuration:
    if Path(policy).suffix in (".yaml", ".yml"):
        return parse_volcano(_text(policy), known_plugins(), policy)
    if policy.lower() in CLASSIC:
        return classic(policy.lower())
    try:
        return placed(policy)
    except UnknownPolicyError:
        raise UnknownTimedPolicyError(policy) from None


def run_policy(
    nodes: Sequence[TraceNode],
    jobs: Sequence[TraceJob],
    policy: Chosen,
    queues: Path | None,
    overheads: bool | None,
    report: Callable[[float, float], None],
) -> ReportRun:
    """Simulate the jobs under a policy.

    Without a file of queues, each queue that a job names has weight 1. `overheads`: whether
    starting a job takes time; None: only if the trace names models. Raises PhalanxError.
    """
    if overheads is None:
        overheads = any(job.workload for job in jobs)
    machines, work = from_trace(nodes, jobs, pooled=policy.pooled, overheads=overheads)
    if queues is None:
        known = tuple(QueueSpec(name=name) for name in sorted({job.queue for job in jobs}))
    else:
        known = read_queues(_text(str(queues)), str(queues))

    def progress(state: Progress) -> None:
        report(state.finished, state.jobs)

    if policy.config is None:
        run = partial(simulate_studied, policy.name.lower())
    else:
        run = partial(simulate, config=policy.config, rules=policy.rules)
    result = run(
        jobs=work,
        nodes=machines,
        queues=known,
        name=policy.name,
        clock=time.perf_counter,
        progress=progress,
    )
    return _shown(result)


def _text(file: str) -> str:
    try:
        return Path(file).read_text(encoding="utf-8")
    except OSError as error:
        raise BatchFileError(error.strerror or str(error), file) from error


def _shown(result: Result) -> ReportRun:
    measures, series = result.measures, result.series
    per = 100 / measures.capacity if measures.capacity else 0.0
    return ReportRun(
        name=result.name,
        figures=_fields(measures),
        curves={
            "over_time": interval_means(series.time_s, [v * per for v in series.allocated]),
            "fragmented": interval_means(series.time_s, series.fragmented_pct),
            "waiting": interval_means(series.time_s, series.waiting_jobs),
        },
        queues=[_fields(queue) for queue in result.queues],
        jct_s=[job.jct_s for job in result.jobs if job.jct_s is not None],
    )


def interval_means(times: Sequence[float], values: Sequence[float]) -> Curve:
    """Return the middles of `INTERVALS` equal intervals, and the mean of the series in each. The
    intervals begin at the first time. Each value of the series lasts until the next time.
    """
    if len(times) < 2 or times[-1] == times[0]:
        return Curve(x=[0.0] * len(values), y=[float(v) for v in values])
    at = np.array(times) - times[0]
    held = np.array(values, dtype=np.float64)
    area = np.concatenate(([0.0], np.cumsum(held[:-1] * np.diff(at))))
    edges = np.linspace(0.0, at[-1], INTERVALS + 1)
    means = np.diff(np.interp(edges, at, area)) / np.diff(edges)
    return Curve(x=((edges[:-1] + edges[1:]) / 2).tolist(), y=means.tolist())


def _fields(measures: Measures | QueueMeasures) -> dict[str, Figure]:
    values = {name: getattr(measures, name) for name in measures.__struct_fields__}
    return {n: round(v, 3) if isinstance(v, float) else v for n, v in values.items()}


def timed_jobs(jobs: Sequence[TraceJob], source: str) -> list[TraceJob]:
    """Return the jobs that have a submission time and a run time. Pods that never started have no
    run time. Raises WorkloadError if no job has both.
    """
    known = [j for j in jobs if j.submitted_s is not None and j.duration_s is not None]
    if not known:
        raise WorkloadError(
            f"{source}: no job has both a submission time and a run time; use --arrival order for "
            "a trace without times"
        )
    return known
