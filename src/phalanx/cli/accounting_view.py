"""The history of jobs as tables, as text like `seff`'s, and as JSON."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import msgspec

from phalanx.cli.layout import Column
from phalanx.cli.listing import fitted_table
from phalanx.cli.times import length, moment
from phalanx.model.attempts import Attempt
from phalanx.model.nearest import nearest
from phalanx.model.readable import amount, duration, size
from phalanx.model.steps import Step
from phalanx.observe.accounting.efficiency import Efficiency
from phalanx.observe.accounting.questions import BOTH, QUEUE, USER, UsageRow
from phalanx.observe.accounting.sums import HourSum, total_of

UNKNOWN = "-"
_HOUR_S = 3600
HISTORY: Final[Mapping[str, Callable[[Attempt], str]]] = {
    "job": lambda one: one.job,
    "namespace": lambda one: one.namespace,
    "member": lambda one: one.member,
    "attempt": lambda one: str(one.attempt),
    "user": lambda one: one.user or UNKNOWN,
    "queue": lambda one: one.queue,
    "state": lambda one: one.state,
    "exit": lambda one: UNKNOWN if one.exit_code is None else str(one.exit_code),
    "node": lambda one: one.node,
    "cpus": lambda one: amount(one.cpus),
    "memory": lambda one: size(one.memory) if one.memory else UNKNOWN,
    "gpus": lambda one: amount(one.gpus),
    "submitted": lambda one: moment(one.submitted),
    "started": lambda one: moment(one.started),
    "ended": lambda one: moment(one.ended),
    "elapsed": lambda one: duration(one.elapsed_s),
    "waited": lambda one: UNKNOWN if one.waited_s is None else duration(one.waited_s),
    "cpu%": lambda one: part(_cpu(one)),
    "mem%": lambda one: part(_memory(one)),
    "gpu%": lambda one: part(one.used.gpu_mean if one.used and one.used.gpus else None),
    "cpu-p95": lambda one: UNKNOWN if one.used is None else amount(round(one.used.cpu_p95, 2)),
    "mem-max": lambda one: size(one.used.memory_max) if one.used else UNKNOWN,
    "gpu-idle": lambda one: (
        duration(one.used.gpu_idle_s) if one.used and one.used.gpus else UNKNOWN
    ),
    "command": lambda one: one.command,
    "reason": lambda one: one.reason,
}
"""The columns of `phalanx history`: their names, and the functions that make their cells."""
USUAL = "job,member,user,queue,state,exit,node,elapsed,cpu%,mem%,gpu%,ended"
_RIGHT = {"attempt", "exit", "cpus", "memory", "gpus", "elapsed", "waited", "cpu%", "mem%", "gpu%",
          "cpu-p95", "mem-max", "gpu-idle"}  # fmt: skip


_DROPPED = ("elapsed", "exit", "gpu%", "cpu%", "node", "ended", "mem%", "queue", "user", "member")
_RANKS = {name: rank for rank, name in enumerate(_DROPPED, start=1)}
"""The ranks of the usual columns. A narrow terminal first leaves out the column with the highest
rank. A column with rank 0 always stays.
"""


_STEP_RANKS = {
    name: rank
    for rank, name in enumerate(
        ("ELAPSED", "EXIT", "STARTED", "USER", "CPU", "MEM-MAX", "NODES", "TASKS"), start=1
    )
}
_REPORT_RANKS = {
    name: rank
    for rank, name in enumerate(("IDLE GPU-H", "GPU%", "CPU%", "WAIT p50", "p90", "p99"), start=1)
}
"""The ranks of the columns of steps and of reports."""


def columns_of(text: str) -> list[str]:
    """Return the names of the columns that `text`, the value of `--format`, asks for. Raises
    ValueError for an unknown column.
    """
    names = [name.strip().lower() for name in text.split(",") if name.strip()]
    for name in names:
        if name not in HISTORY and name not in ("all", "wide"):
            there = ", ".join(HISTORY)
            raise ValueError(f"there is no column {name!r}{nearest(name, list(HISTORY))}; "
                             f"the columns are {there}, and wide (all)")  # fmt: skip
    if not names:
        raise ValueError("--format takes at least one column")
    return list(HISTORY) if {"all", "wide"} & set(names) else names


def history_columns(names: Sequence[str]) -> list[Column]:
    """Return the columns with these names for the listing of attempts."""
    return [
        Column(name, HISTORY[name], rank=_RANKS.get(name, 0), is_right=name in _RIGHT)
        for name in names
    ]


def steps_text(steps: Sequence[Step], now: float) -> str:
    """Return a table with one row per step."""
    head = ["STEP", "NAME", "USER", "STATE", "EXIT", "TASKS", "NODES", "ELAPSED", "CPU", "MEM-MAX",
            "STARTED"]  # fmt: skip
    rows = [
        [
            f"{one.job}.{one.number}",
            one.name,
            one.user or UNKNOWN,
            one.state,
            UNKNOWN if one.exit_code is None else str(one.exit_code),
            str(one.tasks),
            str(len(one.nodes)),
            duration(one.elapsed_s(now)),
            duration(one.cpu_s),
            size(one.memory_max) if one.memory_max else UNKNOWN,
            moment(one.started),
        ]
        for one in steps
    ]
    right = {"EXIT", "TASKS", "NODES", "ELAPSED", "CPU", "MEM-MAX"}
    return fitted_table(head, rows, _STEP_RANKS, right)


def plain(attempt: Attempt) -> dict[str, Any]:
    """Return an attempt as data for JSON. `used` is null if the usage is unknown."""
    found = msgspec.structs.asdict(attempt)
    found["elapsed_s"] = attempt.elapsed_s
    if attempt.used is not None:
        found["used"] = msgspec.structs.asdict(attempt.used)
    return found


def efficiency_text(one: Efficiency, is_cut: bool) -> str:
    """Return the efficiency of a job in the form of `seff`, with GPUs and advice."""
    code = UNKNOWN if one.exit_code is None else str(one.exit_code)
    lines = [
        f"Job: {one.job}",
        f"User/Queue: {one.user or UNKNOWN}/{one.queue}",
        f"State: {one.state} (exit code {code})",
        f"Nodes: {one.nodes}",
        f"Cores: {amount(one.cpus)}",
        f"GPUs: {amount(one.gpus)}",
        f"CPU Utilized: {length(one.cpu_s)}",
        f"CPU Efficiency: {of(one.cpu, length(one.held_cpu_s) + ' core-walltime')}",
        f"Job Wall-clock time: {length(one.elapsed_s)}",
        "Memory Utilized: " + (UNKNOWN if one.memory_max is None else size(one.memory_max)),
    ]
    if one.member_memory:
        lines.append(f"Memory Efficiency: {of(one.memory_part, size(one.member_memory))}")
    if one.gpus:
        lines.append(f"GPU Efficiency: {of(one.gpu, 'of the time')}")
        idle = UNKNOWN if one.gpu_idle_s is None else length(one.gpu_idle_s)
        lines.append(f"GPU Idle: {idle} device-time")
        most = UNKNOWN if one.gpu_memory_max is None else size(one.gpu_memory_max)
        lines.append(f"GPU Memory Utilized: {most} ({part(one.gpu_memory_part)})")
    if sum(one.tasks.values()) > 1:
        counts = ", ".join(f"{count} {state}" for state, count in one.tasks.items())
        lines.append(f"Array tasks: {sum(one.tasks.values())} ({counts})")
    if one.attempts > max(sum(one.tasks.values()), 1):
        lines.append(f"Attempts of members: {one.attempts}")
    if one.unknown:
        lines.append(f"Left out, as their use is not known: {one.unknown}")
    if is_cut:
        lines.append("Left out: all attempts before the last 10,000")
    return "\n".join([*lines, "", one.advice])


def report_text(rows: Sequence[UsageRow], by: str) -> str:
    """Return a table with one row per user and queue, and a last row with the total."""
    kinds = {USER: ["USER"], QUEUE: ["QUEUE"], BOTH: ["USER", "QUEUE"]}[by]
    numbers = ["ATTEMPTS", "DONE", "CPU-H", "CPU%", "GPU-H", "GPU%", "IDLE GPU-H", "WAIT p50",
               "p90", "p99"]  # fmt: skip
    total = UsageRow(user="all", queue="all", sum=total_of([row.sum for row in rows]))
    cells = []
    for row in [*rows, total]:
        user = row.user or UNKNOWN
        named = {USER: [user], QUEUE: [row.queue], BOTH: [user, row.queue]}[by]
        cells.append(named + _sums(row.sum))
    return fitted_table([*kinds, *numbers], cells, _REPORT_RANKS, numbers)


def _sums(one: HourSum) -> list[str]:
    waits = [one.wait(p) for p in (0.5, 0.9, 0.99)]
    return [
        f"{one.attempts:,}",
        part(one.completed / one.attempts if one.attempts else None),
        f"{one.cpu_s / _HOUR_S:,.1f}",
        part(one.cpu_used_s / one.cpu_known_s if one.cpu_known_s else None),
        f"{one.gpu_s / _HOUR_S:,.1f}",
        part(one.gpu_used_s / one.gpu_known_s if one.gpu_known_s else None),
        f"{one.gpu_idle_s / _HOUR_S:,.1f}" if one.gpu_known_s else UNKNOWN,
        *(UNKNOWN if wait is None else duration(wait) for wait in waits),
    ]


def report_row(row: UsageRow) -> dict[str, Any]:
    """Return a row as data for JSON. Usage is in hours, and waits are in seconds."""
    one = row.sum
    return {
        "user": row.user,
        "queue": row.queue,
        "attempts": one.attempts,
        "completed": one.completed,
        "jobs_begun": sum(one.waits.values()),
        **{
            name.replace("_s", "_hours"): getattr(one, name) / _HOUR_S
            for name in ("cpu_s", "cpu_used_s", "cpu_known_s", "cpu_idle_s", "gpu_s",
                         "gpu_used_s", "gpu_known_s", "gpu_idle_s")
        },
        "memory_byte_hours": one.memory_s / _HOUR_S,
        "wait_p50_s": one.wait(0.5),
        "wait_p90_s": one.wait(0.9),
        "wait_p99_s": one.wait(0.99),
    }  # fmt: skip


def part(value: float | None) -> str:
    """Return a fraction from 0 to 1 as a percentage."""
    return UNKNOWN if value is None else f"{value:.0%}"


def of(value: float | None, whole: str) -> str:
    """Return, in the form of `seff`, which fraction `value` of `whole` was used, such as `12.00% of
    01:00:00`. If `value` is None, the fraction is shown as unknown.
    """
    shown = UNKNOWN if value is None else f"{value:.2%}"
    return f"{shown} {whole}" if whole.startswith("of") else f"{shown} of {whole}"


def _cpu(one: Attempt) -> float | None:
    held = one.cpus * one.elapsed_s
    return None if one.used is None or not held else one.used.cpu_s / held


def _memory(one: Attempt) -> float | None:
    return one.used.memory_max / one.memory if one.used and one.memory else None
