"""Traces made from `default` by a rule and a seed, like its published variants. In each published
variant, one property of the default trace differs. The published files are not included here, but
the property of each variant is known, and so is how often pods name each GPU type.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from phalanx_research.traces.records import TraceJob, TraceNode

FORMS = (
    *(f"cpu{permille:03}" for permille in (50, 100, 200, 250)),
    *(f"gpushare{percent}" for percent in (40, 60, 80, 100)),
    *(f"gpuspec{percent}" for percent in (10, 20, 25, 33)),
    *(f"multigpu{percent}" for percent in (20, 30, 40, 50)),
)
"""The names of sixteen forms, each of a kind and a number. For `cpu`, the number is the fraction of
pods without GPUs, in thousandths. For the other kinds, it is the percentage of the requested GPUs
that pods request as parts of a GPU (`gpushare`), with a GPU type (`gpuspec`), or several at a time
(`multigpu`).
"""

SPECS: tuple[tuple[tuple[str, ...], int], ...] = (
    (("T4",), 33),
    (("G2",), 13),
    (("P100",), 8),
    (("V100M16", "V100M32"), 4),
    (("P100", "V100M16", "V100M32"), 3),
    (("G2", "P100", "T4", "V100M16", "V100M32"), 1),
    (("A10", "G2", "P100", "T4", "V100M16", "V100M32"), 1),
)
"""The sets of GPU types that pods name, with their frequencies, counted in a part of the published
gpuspec33.
"""


def synthetic_jobs(
    form: str, nodes: Sequence[TraceNode], jobs: Sequence[TraceJob], *, seed: int
) -> list[TraceJob]:
    """Return jobs in one of the `FORMS`, made from `jobs`. Raises ValueError for an unknown
    form.
    """
    if form not in FORMS:
        raise ValueError(f"there is no form {form!r}; there are: {', '.join(FORMS)}")
    kind, number = form.rstrip("0123456789"), int(form.lstrip("abcdefghijklmnopqrstuvwxyz"))
    draws = np.random.default_rng(np.random.SeedSequence([seed, *form.encode()]))
    make = {"cpu": _cpu, "gpushare": _gpushare, "gpuspec": _gpuspec, "multigpu": _multigpu}[kind]
    made = make(jobs, nodes, number / (1000 if kind == "cpu" else 100), draws)
    return [replace(job, name=f"{form}-{i:05}") for i, job in enumerate(made)]


def _cpu(
    jobs: Sequence[TraceJob], _: Sequence[TraceNode], share: float, draws: np.random.Generator
) -> list[TraceJob]:
    """Return the jobs with pods without a GPU left out or repeated until they are this fraction of
    all pods.
    """
    others, chosen = _split(jobs, lambda job: not job.num_gpu)
    return others + _resized(chosen, round(share / (1 - share) * len(others)), draws)


def _gpushare(
    jobs: Sequence[TraceJob], _: Sequence[TraceNode], share: float, draws: np.random.Generator
) -> list[TraceJob]:
    """Return the jobs with more or fewer pods that share a GPU, until the fraction is reached. The
    number of pods with GPUs stays the same.
    """
    gpu, rest = _split(jobs, lambda job: not job.num_gpu)
    others, chosen = _split(gpu, lambda job: job.shape.is_shared)
    one, other = _milli(chosen) / len(chosen), _milli(others) / len(others)
    count = round(share * other / (share * other + (1 - share) * one) * len(gpu))
    return rest + _resized(others, len(gpu) - count, draws) + _resized(chosen, count, draws)


def _gpuspec(
    jobs: Sequence[TraceJob], nodes: Sequence[TraceNode], share: float, draws: np.random.Generator
) -> list[TraceJob]:
    """Draw pods one by one, and give each pod GPU types that could host it. Stop when the pods that
    name a type request this fraction of the GPUs.
    """
    made, wanted, typed = list(jobs), share * _milli(jobs), 0
    for index in draws.permutation(len(made)):
        job = made[index]
        if typed >= wanted:
            break
        models = _some_models(nodes, job, draws) if job.num_gpu else ()
        if models:
            made[index] = replace(job, models=models)
            typed += job.shape.milli
    return made


def _multigpu(
    jobs: Sequence[TraceJob], _: Sequence[TraceNode], share: float, draws: np.random.Generator
) -> list[TraceJob]:
    """Return the jobs with the pods of several GPUs repeated until they request this fraction of
    the GPUs.
    """
    others, chosen = _split(jobs, lambda job: job.num_gpu > 1)
    wanted, asked = share / (1 - share) * _milli(others), _milli(chosen)
    more: list[TraceJob] = []
    while asked < wanted:
        more.append(chosen[int(draws.integers(len(chosen)))])
        asked += more[-1].shape.milli
    return list(jobs) + more


def _split(
    jobs: Sequence[TraceJob], chosen: Callable[[TraceJob], bool]
) -> tuple[list[TraceJob], list[TraceJob]]:
    return [j for j in jobs if not chosen(j)], [j for j in jobs if chosen(j)]


def _resized(jobs: list[TraceJob], count: int, draws: np.random.Generator) -> list[TraceJob]:
    """Return `count` jobs: some of the given jobs, or all of them and copies of some."""
    if count <= len(jobs):
        return [jobs[i] for i in np.sort(draws.permutation(len(jobs))[:count])]
    return jobs + [jobs[i] for i in draws.integers(len(jobs), size=count - len(jobs))]


def _milli(jobs: Sequence[TraceJob]) -> int:
    return sum(job.shape.milli for job in jobs)


def _some_models(
    nodes: Sequence[TraceNode], job: TraceJob, draws: np.random.Generator
) -> tuple[str, ...]:
    """Draw one of `SPECS` by weight; if possible, one with which some node could host the job."""
    hosts = {n.model for n in nodes if n.gpus >= job.num_gpu and n.cpu_milli >= job.cpu_milli}
    usable = [(models, weight) for models, weight in SPECS if hosts.intersection(models)]
    if not usable:
        return ()
    weight = np.array([weight for _, weight in usable])
    return usable[int(draws.choice(len(usable), p=weight / weight.sum()))][0]
