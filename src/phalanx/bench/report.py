"""What a run says: a table for people, Markdown for a page, JSON for machines."""

from __future__ import annotations

import datetime
import os
import platform
import statistics
from collections.abc import Sequence
from typing import Any

from rich.table import Table

from phalanx.bench.runner import Outcome, Result, Side

GIGABYTES = "GB/s"
FLOOR = "floor"


def geometric_means(results: Sequence[Result]) -> dict[str, float]:
    """The geometric mean of the ratios of Ray's rows: of all, and without the gigabyte rows.

    The gigabyte rows are bounded by the memory itself, so they are marked.
    """
    ratios = [
        (result.row.unit, result.ratio)
        for result in results
        if result.row.group == "microbenchmark" and result.ratio
    ]
    groups = {
        "all rows": [ratio for _, ratio in ratios],
        "without the gigabyte rows": [ratio for unit, ratio in ratios if unit != GIGABYTES],
    }
    return {name: statistics.geometric_mean(each) for name, each in groups.items() if each}


def shares_of_floor(results: Sequence[Result]) -> list[tuple[str, str, float]]:
    """For each row and each of its floors measured in this run: both names, and the share."""
    medians = {result.row.name: result.phalanx.median for result in results}
    shares = []
    for result in results:
        for floor in result.row.floors:
            ours, plain = result.phalanx.median, medians.get(floor)
            if ours and plain:
                shares.append((result.row.name, floor, ours / plain))
    return shares


def machine() -> dict[str, Any]:
    """What the figures depend on."""
    model = platform.processor() or platform.machine()
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as lines:
            model = next(line.split(":", 1)[1].strip() for line in lines if "model name" in line)
    except (OSError, StopIteration):
        pass
    memory_bytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "cores": os.cpu_count(),
        "model": model,
        "memory_gib": round(memory_bytes / 2**30, 1),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
    }


def shown(value: float | None, unit: str) -> str:
    """A figure with its unit: three significant digits below a thousand, whole above."""
    if value is None:
        return "–"
    if value == 0:
        return f"0 {unit}"
    text = f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"
    return f"{text} {unit}" if unit != "/s" else f"{text} /s"


def _cell(outcome: Outcome | None, unit: str) -> str:
    if outcome is None:
        return "–"
    return "failed" if outcome.error else shown(outcome.median, unit)


def _ratio(result: Result) -> str:
    return f"{result.ratio:.1f}×" if result.ratio else "–"


def _split(results: Sequence[Result]) -> tuple[list[Result], list[Result]]:
    """What was measured on the engines, and the plain work that it is held against."""
    engines = [result for result in results if result.row.group != FLOOR]
    return engines, [result for result in results if result.row.group == FLOOR]


def as_tables(results: Sequence[Result], peer: Side | None) -> list[Table]:
    """The tables for a terminal: the engines, a section for each group, and plain work."""
    engines, floors = _split(results)
    tables = [_engine_table(engines, peer)] if engines else []
    if floors:
        table = Table(title="Plain work, in the same run")
        table.add_column("row")
        table.add_column("rate", justify="right")
        for result in floors:
            table.add_row(result.row.name, _cell(result.phalanx, result.row.unit))
        tables.append(table)
    return tables


def _engine_table(results: Sequence[Result], peer: Side | None) -> Table:
    table = Table(title="Phalanx" + (f" and Ray {peer.version}" if peer else ""))
    table.add_column("row")
    table.add_column("Phalanx", justify="right")
    if peer:
        table.add_column("Ray", justify="right")
        table.add_column("times better", justify="right")
    group = None
    for result in results:
        if group not in (None, result.row.group):
            table.add_section()
        group = result.row.group
        cells = [result.row.name, _cell(result.phalanx, result.row.unit)]
        if peer:
            cells += [_cell(result.peer, result.row.unit), _ratio(result)]
        table.add_row(*cells)
    return table


def closing_lines(results: Sequence[Result]) -> list[str]:
    """The geometric means and the shares of a plain memory copy, one line each."""
    lines = [
        f"geometric mean of Ray's rows, {name}: {mean:.1f}×"
        for name, mean in geometric_means(results).items()
    ]
    lines += [f"{name}: {share:.0%} of {floor}" for name, floor, share in shares_of_floor(results)]
    return lines


def as_markdown(results: Sequence[Result], peer: Side | None) -> str:
    """The table for a README, with the machine and the date below it."""
    engines, floors = _split(results)
    head = ["row", "Phalanx"] + ([f"Ray {peer.version}", "times better"] if peer else [])
    lines = ["| " + " | ".join(head) + " |", "|---" + "|---:" * (len(head) - 1) + "|"]
    for result in engines:
        cells = [result.row.name, _cell(result.phalanx, result.row.unit)]
        if peer:
            cells += [_cell(result.peer, result.row.unit), _ratio(result)]
        lines.append("| " + " | ".join(cells) + " |")
    lines += ["", *(f"- {line}" for line in closing_lines(results))]
    lines += [f"- {result.row.name}: {_cell(result.phalanx, result.row.unit)}" for result in floors]
    host = machine()
    lines.append(
        f"- {host['cores']} cores of {host['model']}, {host['memory_gib']} GiB, "
        f"Python {host['python']}, {datetime.date.today().isoformat()}"
    )
    return "\n".join(lines)


def as_document(
    results: Sequence[Result], *, ours: Side, peer: Side | None, effort_name: str
) -> dict[str, Any]:
    """Everything, samples included, ready for JSON."""

    def outcome(each: Outcome | None) -> dict[str, Any] | None:
        if each is None:
            return None
        if each.error:
            return {"error": each.error}
        return {"median": each.median, "samples": list(each.samples)}

    engines, floors = _split(results)
    return {
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "machine": machine(),
        "effort": effort_name,
        "versions": {side.name: side.version for side in (ours, peer) if side},
        "rows": [
            {
                "name": result.row.name,
                "group": result.row.group,
                "unit": result.row.unit,
                "more_is_better": result.row.more_is_better,
                "phalanx": outcome(result.phalanx),
                "peer": outcome(result.peer),
                "ratio": result.ratio,
            }
            for result in engines
        ],
        "floors": [
            {"name": result.row.name, "unit": result.row.unit, "plain": outcome(result.phalanx)}
            for result in floors
        ],
        "geometric_means": geometric_means(results),
        "shares_of_floor": [
            {"row": name, "floor": floor, "share": share}
            for name, floor, share in shares_of_floor(results)
        ],
    }
