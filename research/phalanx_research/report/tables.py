"""The tables of the page: the figures of all runs side by side, and the queues of each run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from itertools import pairwise

from phalanx.dashboard.scales import span
from phalanx_research.report.run import Figure, ReportRun

TITLES = {
    "alloc_pct_at_arrived_100": "allocated at 100 % requested, % of the GPUs",
    "alloc_pct_at_arrived_130": "allocated at 130 % requested, % of the GPUs",
    "frag_pct_capacity_at_50": "fragmented at 50 % requested, % of the GPUs",
    "frag_pct_capacity_at_100": "fragmented at 100 % requested, % of the GPUs",
    "failed_pods": "pods without room",
    "placements_per_s": "decisions per second",
    "capacity": "capacity of the resource",
    "never_started": "never started",
    "allocation_pct": "allocated, mean over time, %",
    "utilisation_pct": "useful work, mean over time, %",
    "fragmented_pct": "fragmented, mean over time, %",
    "delay_mean_s": "waiting for the first start, mean",
    "delay_p99_s": "waiting for the first start, 99th percentile",
    "jct_mean_s": "completion time, mean",
    "jct_p50_s": "completion time, median",
    "jct_p99_s": "completion time, 99th percentile",
    "makespan_s": "from first submission to last end",
    "fairness": "fairness between queues (1 is equal)",
    "preemptions": "number of preemptions",
    "decisions_per_s": "decisions per second",
}
QUEUE_TITLES = {
    "name": "queue",
    "delay_mean_s": "waiting, mean",
    "jct_mean_s": "completion, mean",
    "slowdown_mean": "completion ÷ run time, mean",
    "share_pct": "share of the used resources, %",
}
MORE_IS_BETTER = ("alloc", "utili", "fairness", "finished")
LESS_IS_BETTER = ("frag", "failed", "delay", "jct", "makespan", "never")


def figure_table(runs: Sequence[ReportRun]) -> str:
    """Return the table: a row for each figure, a column for each run."""
    figures = list(dict.fromkeys(key for run in runs for key in run.figures))
    head = "".join(f"<th>{escape(run.name)}</th>" for run in runs)
    body = ""
    for figure in figures:
        values = [run.figures.get(figure) for run in runs]
        best = _best(figure, values)
        cells = "".join(
            f"<td{' class=best' if best is not None and value == best else ''}>"
            f"{escape(_shown(figure, value))}</td>"
            for value in values
        )
        body += f"<tr><td>{escape(_title(figure, TITLES))}</td>{cells}</tr>"
    return f"<table><thead><tr><th></th>{head}</tr></thead><tbody>{body}</tbody></table>"


def _best(column: str, values: list[Figure]) -> float | None:
    """Return the best value, to print in bold, if values differ and one direction is better."""
    numbers = [v for v in values if isinstance(v, int | float)]
    if all(a == b for a, b in pairwise(numbers)):
        return None
    if column.startswith(MORE_IS_BETTER):
        return max(numbers)
    return min(numbers) if column.startswith(LESS_IS_BETTER) else None


def _shown(name: str, value: Figure) -> str:
    if value is None:
        return "–"
    if isinstance(value, str):
        return value
    if name.endswith("_s") and not name.endswith("_per_s"):
        return span(value)
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:,.2f}"


def queue_table(run: ReportRun) -> str:
    """Return the table: a row for each queue."""
    columns = list(run.queues[0])
    head = "".join(f"<th>{escape(_title(c, QUEUE_TITLES))}</th>" for c in columns)
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(_shown(c, row[c]))}</td>" for c in columns) + "</tr>"
        for row in run.queues
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _title(name: str, titles: Mapping[str, str]) -> str:
    return titles.get(name, name.replace("_", " "))
