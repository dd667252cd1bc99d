"""Reads the files of `phalanx simulate`, runs each policy, and writes the page."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from phalanx.errors import PhalanxError
from phalanx_research.report.page import report_page
from phalanx_research.report.run import ReportRun
from phalanx_research.traces.reading import read_jobs, read_nodes
from phalanx_research.traces.records import TraceJob, TraceNode

Write = Callable[[str], None]
DEFAULT_INFLATE = 1.3
"""The default of `--inflate`, as in the published experiment."""
Tell = Callable[[float, float], None]
"""A callback for progress. It gets the amount of work done, and the total amount."""


@dataclass(frozen=True, kw_only=True)
class Request:
    """The command's options."""

    nodes: Path
    pods: Path
    policies: tuple[str, ...]
    over_time: bool = False
    published: bool = False
    """Whether the rules of Muri's simulator apply instead of the rules of a cluster."""
    overheads: bool | None = None
    """Whether starting a job takes time. None: only if the trace names models."""
    inflate: float | None = None
    seed: int = 42
    queues: Path | None = None
    report: Path | None = None


class RequestError(PhalanxError, ValueError):
    """Raised for options that cannot be combined."""


def run(request: Request, *, warn: Write) -> list[ReportRun]:
    """Return one run for each policy. Raises PhalanxError for faulty files or options."""
    if len(set(request.policies)) != len(request.policies):
        raise RequestError(f"--policy names a policy twice: {', '.join(request.policies)}")
    if request.queues is not None and not request.over_time:
        raise RequestError(
            "--queues needs --arrival time: with --arrival order no pod waits in a queue"
        )
    if not request.over_time and (request.published or request.overheads is not None):
        option = "--rules" if request.published else "--overheads"
        raise RequestError(
            f"{option} needs --arrival time: with --arrival order every pod starts once, on arrival"
        )
    if request.inflate is not None and request.over_time:
        raise RequestError(
            "--inflate needs --arrival order: copies of jobs have no times of their own"
        )
    nodes, jobs = read_nodes(request.nodes), read_jobs(request.pods)
    runs = _over_time if request.over_time else _in_order
    shown = runs(request, nodes, jobs, warn)
    if request.report is not None:
        request.report.write_text(
            report_page(shown, title="Simulated runs", subtitle=_subtitle(request)),
            encoding="utf-8",
        )
    return shown


def _over_time(
    request: Request, nodes: Sequence[TraceNode], jobs: Sequence[TraceJob], warn: Write
) -> list[ReportRun]:
    from phalanx_research.over_time import run_policy, timed_jobs, usable_policy

    chosen = [usable_policy(policy, published=request.published) for policy in request.policies]
    timed = timed_jobs(jobs, str(request.pods))
    if len(timed) < len(jobs):
        left = f"{len(jobs) - len(timed):,} of {len(jobs):,} jobs"
        warn(f"{request.pods}: {left} lack a submission time or a run time and are left out")
    shown = []
    for policy in chosen:
        with progress(policy.name) as report:
            shown.append(
                run_policy(nodes, timed, policy, request.queues, request.overheads, report)
            )
    return shown


def _in_order(
    request: Request, nodes: Sequence[TraceNode], jobs: Sequence[TraceJob], _: Write
) -> list[ReportRun]:
    from phalanx_research.arrival.command import run_policy, usable_policy

    names = [usable_policy(policy) for policy in request.policies]
    shown = []
    for policy, name in zip(request.policies, names, strict=True):
        with progress(policy) as report:
            shown.append(
                run_policy(nodes, jobs, policy, name, _inflate(request), request.seed, report)
            )
    return shown


def _inflate(request: Request) -> float:
    return DEFAULT_INFLATE if request.inflate is None else request.inflate


def _subtitle(request: Request) -> str:
    how = (
        "at their own times"
        if request.over_time
        else f"{_inflate(request):.0%} of the GPUs asked for"
    )
    return f"{request.pods.name} on {request.nodes.name}, {how}, seed {request.seed}"


@contextmanager
def progress(name: str) -> Iterator[Tell]:
    """Show a progress bar on standard error, if that is a terminal."""
    if not sys.stderr.isatty():
        yield lambda done, total: None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(name, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
