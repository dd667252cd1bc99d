"""Runs the parts of `phalanx demo`: loads the data, searches, trains, shares the machine between
teams, and reports.
"""

from __future__ import annotations

import json as json_text
import os
import sys
import time

from rich.console import Console

import phalanx
from phalanx_research.demo.digits import DataMissing, Digits, load
from phalanx_research.demo.report import Burst, Outcome, document, tables
from phalanx_research.demo.search import search
from phalanx_research.demo.teams import share
from phalanx_research.demo.training import train

SEED = 1797
GOOD_ACCURACY = 0.95
WORKERS_LIMIT = 8
BURST_TASKS = 10_000


def execute(*, trials: int, workers: int | None, json: bool) -> int:
    """Run the demo as `phalanx_research.demo.run` describes."""
    if trials < 1 or (workers is not None and workers < 1):
        print(
            f"--trials and --workers must be at least 1, got {trials} and {workers}.",
            file=sys.stderr,
        )
        return 2
    try:
        data = load(SEED)
    except DataMissing as missing:
        print(missing, file=sys.stderr)
        return 2
    workers = workers or min(WORKERS_LIMIT, os.cpu_count() or 1)
    # Progress goes to standard error, so that standard output has only the JSON.
    console = Console(stderr=json)
    is_ours = not phalanx.is_initialized()
    if is_ours:
        phalanx.init()
    try:
        outcome, problems = _run(data, trials, workers, console)
    finally:
        if is_ours:
            phalanx.shutdown()
    if json:
        print(json_text.dumps(document(outcome, problems) if outcome else {"problems": problems}))
    elif outcome:
        for table in tables(outcome):
            console.print(table)
    for problem in problems:
        print(problem, file=sys.stderr)
    return 1 if problems else 0


def _run(
    data: Digits, trials: int, workers: int, console: Console
) -> tuple[Outcome | None, list[str]]:
    began = time.perf_counter()
    data_ref = phalanx.put(data)
    searched = search(data_ref, trials, SEED, console)
    problems = list(searched.errors)
    if not searched.trials:
        return None, [*problems, "every trial failed, so there is nothing to train"]
    best = searched.trials[0].settings
    console.print(f"best settings: {best}", highlight=False)
    try:
        training = train(
            data_ref, len(data.train_y), best, workers=workers, seed=SEED, console=console
        )
    except Exception as error:
        return None, [*problems, f"the training failed: {error}"]
    if training.test < GOOD_ACCURACY:
        problems.append(
            f"the accuracy on the test images is {training.test:.1%}; at least {GOOD_ACCURACY:.0%} "
            "is expected"
        )
    try:
        shared = share(console)
    except Exception as error:
        return None, [*problems, f"the teams' gangs failed: {error}"]
    outcome = Outcome(
        data_bytes=data.size_bytes(),
        search=searched,
        training=training,
        burst=_burst(),
        shared=shared,
        seconds=time.perf_counter() - began,
    )
    return outcome, problems


def _nothing() -> None:
    return None


def _burst() -> Burst:
    task = phalanx.remote(_nothing)
    phalanx.get(task.remote())
    began = time.perf_counter()
    phalanx.get([task.remote() for _ in range(BURST_TASKS)])
    return Burst(BURST_TASKS, time.perf_counter() - began)
