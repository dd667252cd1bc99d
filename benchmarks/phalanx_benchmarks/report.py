"""The report of a run: a table for the terminal, Markdown for a document, or JSON."""

from __future__ import annotations

import dataclasses
import datetime
import os
import platform
from collections.abc import Sequence
from typing import Any

from rich.table import Table

from phalanx_benchmarks.means import geometric_means, shares_of_floor
from phalanx_benchmarks.row import FLOOR
from phalanx_benchmarks.runner import Outcome, Ratio, Result
from phalanx_benchmarks.sides import Side


def machine() -> dict[str, Any]:
    """Return facts about this machine that affect the figures."""
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
    """Return a figure with its unit as text. It has three significant digits below a thousand, and
    is a whole number above.
    """
    if value is None:
        return "–"
    if value == 0:
        return f"0 {unit}"
    text = f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"
    return f"{text} {unit}" if unit != "/s" else f"{text} /s"


def _cell(outcome: Outcome | None, unit: str) -> str:
    """Return a cell with the median and the spread of the samples."""
    if outcome is None:
        return "–"
    if outcome.error:
        return "failed"
    spread = outcome.spread
    return shown(outcome.median, unit) + (f" ±{spread:.0%}" if spread is not None else "")


def times(ratio: Ratio | None) -> str:
    """Return a ratio as text, with the worst and the best round in brackets."""
    if ratio is None:
        return "–"
    if ratio.low == ratio.high:
        return f"{ratio.median:.1f}×"
    return f"{ratio.median:.1f}× ({ratio.low:.1f}–{ratio.high:.1f})"


def _title(side: Side) -> str:
    return f"{side.name.capitalize() if side.name == 'ray' else side.name} {side.version}"


def _split(results: Sequence[Result]) -> tuple[list[Result], list[Result]]:
    """Divide results into those of systems and those of plain work."""
    systems = [result for result in results if result.row.group != FLOOR]
    return systems, [result for result in results if result.row.group == FLOOR]


def _heads(peers: Sequence[Side]) -> list[str]:
    heads = ["row", "Phalanx"]
    for peer in peers:
        heads += [_title(peer), "times better"]
    return heads


def _cells(result: Result, peers: Sequence[Side]) -> list[str]:
    mark = " *" if result.row.aside else ""
    cells = [result.row.name + mark, _cell(result.phalanx, result.row.unit)]
    for peer in peers:
        cells += [
            _cell(result.peers.get(peer.name), result.row.unit),
            times(result.ratio(peer.name)),
        ]
    return cells


def as_tables(results: Sequence[Result], peers: Sequence[Side]) -> list[Table]:
    """Return the tables for a terminal: the systems, with a section for each group, and plain
    work.
    """
    systems, floors = _split(results)
    tables = [_system_table(systems, peers)] if systems else []
    if floors:
        table = Table(title="Plain work, in the same run")
        table.add_column("row")
        table.add_column("rate", justify="right")
        for result in floors:
            table.add_row(result.row.name, _cell(result.phalanx, result.row.unit))
        tables.append(table)
    return tables


def _system_table(results: Sequence[Result], peers: Sequence[Side]) -> Table:
    table = Table(title=" and ".join(["Phalanx", *map(_title, peers)]))
    for number, head in enumerate(_heads(peers)):
        table.add_column(head, justify="right" if number else "left")
    group = None
    for result in results:
        if group not in (None, result.row.group):
            table.add_section()
        group = result.row.group
        table.add_row(*_cells(result, peers))
    return table


def closing_lines(results: Sequence[Result], peers: Sequence[Side]) -> list[str]:
    """Return lines with the geometric means, the rows that are in no mean, and the fractions of a
    plain memory copy.
    """
    lines = [
        f"geometric mean beside {_title(peer)}, {name}: {mean:.1f}× ({count} rows)"
        for peer in peers
        for name, (mean, count) in geometric_means(results, peer.name).items()
    ]
    asides = dict.fromkeys(result.row.aside for result in results if result.row.aside)
    lines += [f"* in no mean: {reason}" for reason in asides]
    lines += [f"{name}: {share:.0%} of {floor}" for name, floor, share in shares_of_floor(results)]
    return lines


def as_markdown(results: Sequence[Result], peers: Sequence[Side]) -> str:
    """Return the table for a document, with the means and the rates of plain work below it."""
    systems, floors = _split(results)
    heads = _heads(peers)
    lines = ["| " + " | ".join(heads) + " |", "|---" + "|---:" * (len(heads) - 1) + "|"]
    lines += ["| " + " | ".join(_cells(result, peers)) + " |" for result in systems]
    lines += ["", *(f"- {line}" for line in closing_lines(results, peers))]
    lines += [f"- {result.row.name}: {_cell(result.phalanx, result.row.unit)}" for result in floors]
    return "\n".join(lines).rstrip("\n")


def about_machine() -> str:
    """Return the line with the machine and the date that ends a document."""
    host = machine()
    load = ", ".join(f"{value:.1f}" for value in os.getloadavg())
    return (
        f"- {host['cores']} cores of {host['model']}, {host['memory_gib']} GiB, "
        f"Python {host['python']}, {datetime.date.today().isoformat()}, load at the end {load}"
    )


def as_document(
    results: Sequence[Result], *, ours: Side, peers: Sequence[Side], effort_name: str
) -> dict[str, Any]:
    """Return all results, with their samples, as data for JSON."""

    def outcome(each: Outcome) -> dict[str, Any]:
        if each.error:
            return {"error": each.error}
        return {"median": each.median, "spread": each.spread, "rounds": list(each.rounds)}

    def ratio(each: Ratio | None) -> dict[str, float] | None:
        return None if each is None else dataclasses.asdict(each)

    systems, floors = _split(results)
    return {
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "machine": machine(),
        "load": os.getloadavg(),
        "effort": effort_name,
        "versions": {side.name: side.version for side in (ours, *peers)},
        "rows": [
            {
                "name": result.row.name,
                "group": result.row.group,
                "unit": result.row.unit,
                "more_is_better": result.row.more_is_better,
                "aside": result.row.aside,
                "phalanx": outcome(result.phalanx),
                "peers": {name: outcome(each) for name, each in result.peers.items()},
                "ratios": {name: ratio(result.ratio(name)) for name in result.peers},
            }
            for result in systems
        ],
        "floors": [
            {"name": result.row.name, "unit": result.row.unit, "plain": outcome(result.phalanx)}
            for result in floors
        ],
        "geometric_means": {
            peer.name: {
                name: {"mean": mean, "rows": count}
                for name, (mean, count) in geometric_means(results, peer.name).items()
            }
            for peer in peers
        },
        "shares_of_floor": [
            {"row": name, "floor": floor, "share": share}
            for name, floor, share in shares_of_floor(results)
        ],
    }
