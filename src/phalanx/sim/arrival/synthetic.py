"""Traces that resemble the published variants of `default`, resampled from it by seed. Ours.

The published experiment varies one property of the default trace at a time. Only what the names of
its files say is known here, so these are not those files: pods are drawn from `default` with the
property set by weights. Pods with a GPU type name one model, drawn by the square root of its number
of GPUs: that comes near the published results of FirstFit (93.8) and FGD (87.8) for gpuspec33.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from phalanx.policies.fragmentation.nodes import Floats
from phalanx.sim.traces.records import TraceJob, TraceNode

ASKED_SHARE = 0.98
"""What a trace's pods ask for, as a share of the cluster's GPUs, as in `default`."""

FORMS = (
    *(f"cpu{percent:03}" for percent in (50, 100, 200, 250)),
    *(f"gpushare{percent}" for percent in (40, 60, 80, 100)),
    *(f"gpuspec{percent}" for percent in (10, 20, 25, 33)),
    *(f"multigpu{percent}" for percent in (20, 30, 40, 50)),
)
"""Sixteen forms: CPU-only pods that many per cent as frequent as in `default`; per cent of GPU pods
that share a GPU; that name GPU types; that ask for several GPUs."""


def synthetic_jobs(
    form: str, nodes: Sequence[TraceNode], jobs: Sequence[TraceJob], *, seed: int
) -> list[TraceJob]:
    """Jobs of one of the `FORMS`, drawn from `jobs`. Raises ValueError for another form."""
    if form not in FORMS:
        raise ValueError(f"there is no form {form!r}; there are: {', '.join(FORMS)}")
    kind, percent = form.rstrip("0123456789"), int(form.lstrip("abcdefghijklmnopqrstuvwxyz"))
    draws = np.random.default_rng(np.random.SeedSequence([seed, *form.encode()]))
    weights = np.ones(len(jobs))
    if kind == "cpu":
        weights[[not j.num_gpu for j in jobs]] = percent / 100
    elif kind == "gpushare":
        _set_share(weights, jobs, lambda j: j.shape.is_shared, percent / 100)
    elif kind == "multigpu":
        _set_share(weights, jobs, lambda j: j.num_gpu > 1, percent / 100)
    weights /= weights.sum()
    wanted = ASKED_SHARE * 1000 * sum(n.gpus for n in nodes)
    asked, made = 0, list[TraceJob]()
    while asked < wanted:
        for index in draws.choice(len(jobs), size=1024, p=weights):
            job = replace(jobs[index], name=f"{form}-{len(made):05}")
            if kind == "gpuspec" and job.num_gpu and draws.random() * 100 < percent:
                job = replace(job, models=(_some_model(draws, nodes, job),))
            made.append(job)
            asked += job.shape.milli
            if asked >= wanted:
                break
    return made


def _set_share(
    weights: Floats, jobs: Sequence[TraceJob], chosen: Callable[[TraceJob], bool], share: float
) -> None:
    """Let the chosen jobs be `share` of the jobs with GPUs; CPU-only ones stay as frequent."""
    gpu = np.array([j.num_gpu > 0 for j in jobs])
    some = np.array([chosen(j) for j in jobs]) & gpu
    others = gpu & ~some
    weights[some] = share * gpu.sum() / some.sum()
    weights[others] = (1 - share) * gpu.sum() / others.sum()


def _some_model(draws: np.random.Generator, nodes: Sequence[TraceNode], job: TraceJob) -> str:
    """A GPU model among those that could ever host the job."""
    gpus: dict[str, int] = {}
    for node in nodes:
        if node.gpus >= job.num_gpu and node.cpu_milli >= job.cpu_milli:
            gpus[node.model] = gpus.get(node.model, 0) + node.gpus
    names = sorted(gpus)
    weight = np.sqrt([gpus[name] for name in names])
    return str(draws.choice(names, p=weight / weight.sum()))
