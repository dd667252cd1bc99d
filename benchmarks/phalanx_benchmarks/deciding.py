"""Benchmarks without an engine: placement, batch cycles, the head, spilling, clusters, transfers.
Each is a module with `run(clock)`, which returns or yields rows. A row maps names of figures to
figures. The clock is an argument because the deciding core has no clock.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
import time
from collections.abc import Sequence
from typing import Any

from rich.table import Table

MODULES = {
    "placement": "phalanx_benchmarks.deciding_placement",
    "batch": "phalanx_benchmarks.deciding_cycles",
    "plan": "phalanx_benchmarks.deciding_forecast",
    "cluster": "phalanx_benchmarks.heartbeats",
    "nodes": "phalanx_benchmarks.nodes",
    "scheduling": "phalanx_benchmarks.spillback",
    "transfer": "phalanx_benchmarks.transfer",
    "store": "phalanx_benchmarks.store",
    "history": "phalanx_benchmarks.history",
    "gangs": "phalanx_benchmarks.gangs",
    "scale": "phalanx_benchmarks.scale",
    "processes": "phalanx_benchmarks.many_processes",
    "objects": "phalanx_benchmarks.large_objects",
    "jobs": "phalanx_benchmarks.job_stream",
    "short-commands": "phalanx_benchmarks.short_commands",
    "people": "phalanx_benchmarks.people",
    "ray-engine": "phalanx_benchmarks.ray_engine",
    "ray-calls": "phalanx_benchmarks.ray_calls",
    "dashboard": "phalanx_benchmarks.dashboard",
    "counting": "phalanx_benchmarks.counting",
    "simulator": "phalanx_benchmarks.simulating",
    "day": "phalanx_research.timed.benchmark",
}
LONG = ("day", "history", "scale", "processes", "objects", "jobs", "short-commands", "people")
"""The groups that are left out unless they are named."""
PURE = ("placement", "batch", "plan", "cluster")
"""The groups that only compute, in one thread. They are measured in CPU time, which other work on
the machine affects less than elapsed time.
"""
NEEDS = {"ray-engine": "ray", "ray-calls": "ray", "dashboard": "uvicorn"}
"""The module that must be installed for each of these groups."""

Figures = dict[str, Any]


def decision_groups(group: str) -> list[str]:
    """Return the groups in `group` that can run here, in a fixed order."""
    return [
        name
        for name, module in MODULES.items()
        if (group == name or (group == "all" and name not in LONG))
        and importlib.util.find_spec(NEEDS.get(name, module)) is not None
    ]


def measure_group(name: str) -> list[Figures]:
    """Run the benchmark of one group. A line on standard error is printed for each row as soon as
    the benchmark has it.
    """
    module = importlib.import_module(MODULES[name])
    clock = time.process_time if name in PURE else time.perf_counter
    rows = []
    for row in module.run(clock=clock):
        rows.append(row)
        print(f"{name}: {_line(row)}", file=sys.stderr, flush=True)
    return rows


def _line(row: Figures) -> str:
    texts = [figure for figure in row.values() if isinstance(figure, str)]
    numbers = [
        f"{name.replace('_', ' ')} {_text(figure)}"
        for name, figure in row.items()
        if isinstance(figure, (int, float))
    ]
    return ", ".join([*texts, *numbers])


def decision_table(name: str, rows: Sequence[Figures]) -> Table:
    """Return a table with a column for each figure that is a number or a text.

    Nested parts and other details are left out.
    """
    table = Table(title=name.capitalize())
    for column, is_text in _columns(rows).items():
        table.add_column(column.replace("_", " "), justify="left" if is_text else "right")
    for cells in _cells(rows):
        table.add_row(*cells)
    return table


def decision_markdown(name: str, rows: Sequence[Figures]) -> str:
    """Return the table of `decision_table` for a document, below a line with its name."""
    columns = _columns(rows)
    heads = [column.replace("_", " ") for column in columns]
    rules = ["---" if is_text else "---:" for is_text in columns.values()]
    lines = [f"| {' | '.join(heads)} |", f"|{'|'.join(rules)}|"]
    lines += [f"| {' | '.join(cells)} |" for cells in _cells(rows)]
    return "\n".join([f"{name.capitalize()}:", "", *lines])


def _columns(rows: Sequence[Figures]) -> dict[str, bool]:
    """Return the names of the columns, and whether each holds texts."""
    return {
        column: isinstance(rows[0].get(column), str)
        for column in dict.fromkeys(column for row in rows for column in row)
        if all(isinstance(row.get(column, ""), (str, int, float)) for row in rows)
    }


def _cells(rows: Sequence[Figures]) -> list[list[str]]:
    columns = _columns(rows)
    return [[_text(row.get(column, "")) for column in columns] for row in rows]


def _text(figure: Any) -> str:
    if isinstance(figure, float):
        return f"{figure:,.0f}" if abs(figure) >= 1000 else f"{figure:.3g}"
    return f"{figure:,}" if isinstance(figure, int) else str(figure)
