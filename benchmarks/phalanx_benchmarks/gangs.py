"""Gangs and jobs from submission to end, measured on one machine. A gang has four members that do
nothing, on a node that declares 16 CPUs. A job runs the command `true`. `cpu s` is the CPU time of
this process and of all processes that the session started. `submit ms` is the time until the call
that submits a gang returned.
"""

from __future__ import annotations

import os
import statistics
from collections.abc import Callable
from typing import Any

import phalanx

Clock = Callable[[], float]
Row = dict[str, Any]

GANGS = 1_000
MEMBERS = 4
STARTS = 20
PENDING = 10_000
EXPLAINED = 5
PATIENCE_S = 600.0


@phalanx.remote
def nothing() -> None:
    """Do nothing, as a member's work."""


def run(
    clock: Clock, gangs: int = GANGS, starts: int = STARTS, pending: int = PENDING
) -> list[Row]:
    """Return three rows: gangs per second, the start of a command, and one explanation among many
    waiting jobs.
    """
    with phalanx.init(num_cpus=16, log_to_driver=False):
        phalanx.get(nothing.gang(MEMBERS).remote())
        rows = [_gangs(clock, gangs), _starts(clock, starts)]
    with phalanx.init(num_cpus=16, log_to_driver=False):
        rows.append(_explains(clock, pending))
    return rows


def _gangs(clock: Clock, count: int) -> Row:
    used = _cpu_s()
    begun = clock()
    running = [nothing.gang(MEMBERS).remote() for _ in range(count)]
    submitted_s = clock() - begun
    phalanx.get([ref for gang in running for ref in gang], timeout=PATIENCE_S)
    took_s = clock() - begun
    return {
        "what": f"{count:,} gangs of {MEMBERS} members",
        "per s": count / took_s,
        "ms": 1000 * took_s / count,
        "cpu s": _cpu_s() - used,
        "submit ms": 1000 * submitted_s / count,
    }


def _starts(clock: Clock, count: int) -> Row:
    """Measure the time from the call of `submit` to the start of the member. The member's process
    reads its own clock.
    """
    import time

    used = _cpu_s()
    took = []
    for number in range(count):
        submitted = time.time()
        job = phalanx.submit(phalanx.Job(["true"], name=f"start-{number}"))
        job.wait(PATIENCE_S)
        started = job.describe()["members"][0]["started"]
        took.append(max(started - submitted, 0.0))
    return {
        "what": "submit to a running command, median of " + str(count),
        "per s": 1 / statistics.median(took),
        "ms": 1000 * statistics.median(took),
        "worst ms": 1000 * max(took),
        "cpu s": _cpu_s() - used,
    }


def _explains(clock: Clock, count: int) -> Row:
    holding = phalanx.submit(phalanx.Job("sleep 1000", name="holding", members=16, grace_s=1))
    while holding.state != "Running":
        pass
    jobs = [phalanx.submit(phalanx.Job(["true"], name=f"job-{i}", members=2)) for i in range(count)]
    took = []
    used = _cpu_s()
    for number in range(EXPLAINED):
        begun = clock()
        phalanx.explain(jobs[-1 - number])
        took.append(clock() - begun)
    return {
        "what": f"explain one of {count:,} jobs that wait",
        "per s": 1 / statistics.median(took),
        "ms": 1000 * statistics.median(took),
        "worst ms": 1000 * max(took),
        "cpu s": _cpu_s() - used,
    }


def _cpu_s() -> float:
    """Return the CPU seconds used so far by this process and by every process of its sessions."""
    import psutil

    times = os.times()
    total = times.user + times.system
    for child in psutil.Process().children(recursive=True):
        try:
            spent = child.cpu_times()
        except psutil.NoSuchProcess:
            continue
        total += spent.user + spent.system + spent.children_user + spent.children_system
    return total
