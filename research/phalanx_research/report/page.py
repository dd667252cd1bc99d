"""The whole page: figures, plots, queues and heat maps. Plots without data are left out."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from phalanx_research.report.heat import heat_map
from phalanx_research.report.polyline import Axis, line_plot
from phalanx_research.report.run import Curve, ReportRun
from phalanx_research.report.style import COLOURS, STYLE
from phalanx_research.report.tables import figure_table, queue_table

ASKED = Axis(title="GPUs requested so far, % of the cluster", low=0)
TIME = Axis(title="time since the first submission", times=True, low=0)
GPUS = Axis(title="% of the cluster's GPUs", low=0)
ALLOCATED = Axis(title=GPUS.title, low=0, high=100)
LEGEND = ("idle", "up to 25 %", "up to 50 %", "up to 75 %", "nearly full", "full")


def report_page(runs: Sequence[ReportRun], *, title: str, subtitle: str) -> str:
    """Return the HTML text. Raises ValueError without runs, or when two runs have the same name."""
    names = [run.name for run in runs]
    if not runs or len(set(names)) != len(names):
        raise ValueError(f"a report needs runs of different names, not {names}")
    colours = {name: number % COLOURS for number, name in enumerate(names)}
    plots = "".join(
        f'<div class="plot"><h2>{escape(head)}</h2><p>{escape(text)}</p>{svg}</div>'
        for head, text, svg in _plots(runs, colours)
    )
    heats = [run for run in runs if run.heat]
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f'<meta name="color-scheme" content="light dark"><title>{escape(title)}</title>'
        f"<style>{STYLE}</style></head><body><h1>{escape(title)}</h1><p>{escape(subtitle)}</p>"
        f'{_legend(colours)}<section class="wide">{figure_table(runs)}</section>'
        f'<section class="plots">{plots}</section>{_queues(runs)}{_heats(heats)}</body></html>\n'
    )


def _legend(colours: dict[str, int]) -> str:
    items = (f'<li><i class="b{c}"></i>{escape(name)}</li>' for name, c in colours.items())
    return f'<ul class="legend">{"".join(items)}</ul>'


def _plots(runs: Sequence[ReportRun], colours: dict[str, int]) -> list[tuple[str, str, str]]:
    def curves(key: str) -> dict[str, Curve]:
        return {run.name: run.curves[key] for run in runs if key in run.curves}

    plots = []
    if lines := curves("allocation"):
        plots.append((
            "Allocation over load", "GPUs in use, while pods arrive and stay.",
            line_plot(lines, colours, ASKED, ALLOCATED),
        ))  # fmt: skip
        start = min(85.0, 0.9 * max(max(c.x) for c in lines.values()))
        near = [b for c in lines.values() for a, b in zip(c.x, c.y, strict=True) if a >= start]
        low = Axis(title=ASKED.title, low=start)
        floor = Axis(title=GPUS.title, low=min(near, default=0.0))
        plots.append((
            "Allocation where the cluster fills up", "The same plot where the policies differ.",
            line_plot(lines, colours, low, floor),
        ))  # fmt: skip
    if lines := curves("fragmentation"):
        plots.append((
            "Fragmentation over load", "Share of idle GPUs that a typical pod cannot use.",
            line_plot(lines, colours, ASKED, GPUS),
        ))  # fmt: skip
    if lines := curves("over_time"):
        plots.append((
            "Allocation over time", "GPUs in use, as the mean of each interval.",
            line_plot(lines, colours, TIME, ALLOCATED),
        ))  # fmt: skip
    if lines := curves("fragmented"):
        plots.append((
            "Fragmentation over time", "Idle GPUs that the typical job cannot use.",
            line_plot(lines, colours, TIME, GPUS),
        ))  # fmt: skip
    if lines := curves("waiting"):
        plots.append((
            "Waiting over time", "Submitted jobs that have not started.",
            line_plot(lines, colours, TIME, Axis(title="jobs", low=0)),
        ))  # fmt: skip
    times = {run.name: _distribution(run.jct_s) for run in runs if run.jct_s}
    if times:
        least = max(1.0, min(min(c.x) for c in times.values()))
        plots.append((
            "Job completion times", "Share of jobs that were completed within a time.",
            line_plot(
                times, colours,
                Axis(title="from submission to end", times=True, low=least, log=True),
                Axis(title="% of jobs", low=0, high=100),
            ),
        ))  # fmt: skip
    return plots


def _distribution(values: Sequence[float]) -> Curve:
    ordered = sorted(max(v, 1.0) for v in values)
    return Curve(x=ordered, y=[100 * (i + 1) / len(ordered) for i in range(len(ordered))])


def _queues(runs: Sequence[ReportRun]) -> str:
    shown = [run for run in runs if run.queues]
    if not shown:
        return ""
    tables = "".join(
        f"<details{' open' if number == 0 else ''}><summary>{escape(run.name)}</summary>"
        f'<div class="wide">{queue_table(run)}</div></details>'
        for number, run in enumerate(shown)
    )
    return f"<section><h2>Queue by queue</h2>{tables}</section>"


def _heats(runs: Sequence[ReportRun]) -> str:
    if not runs:
        return ""
    scale = "".join(
        f'<span><i class="k{n}"></i>{escape(name)}</span>' for n, name in enumerate(LEGEND)
    )
    maps = "".join(
        f"<details{' open' if number == 0 else ''}><summary>{escape(run.name)}</summary>"
        f"{heat_map(run.heat)}</details>"
        for number, run in enumerate(runs)
    )
    return (
        "<section><h2>Every GPU at the end</h2><p>Each column is a node, and each cell one of its "
        f'GPUs; the fullest nodes come first.</p><div class="scale">{scale}</div>{maps}</section>'
    )
