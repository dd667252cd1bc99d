"""Draws numbers over time as SVG: lines with a grid, labelled axes and a legend.

Places along the time axis are percentages, so that a plot fills any width and its text keeps its
size.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise

from markupsafe import Markup

from phalanx.dashboard.pages.metrics import Chart, Line
from phalanx.dashboard.scales import clock_ticks, round_ticks
from phalanx.model.rows.explanation import BYTES

_HIGH, _BELOW, _ABOVE = 130, 18, 8
"""Pixels of the drawing, of the times below it, and of free space above it."""
_GAP = 4.0
"""A line is interrupted where points are further apart than this many times the usual step."""


def chart_svg(chart: Chart, written: Callable[[str, float], str]) -> Markup:
    """Return a figure of a chart. `written` returns an amount of a resource as text."""
    keys = Markup(" ").join(
        Markup('<span class="plot-key {}">{} {}</span>').format(
            line.kind, line.name, written(chart.unit, line.points[-1][1])
        )
        for line in chart.lines
        if line.points
    )
    caption = Markup("<figcaption><b>{}</b> {}</figcaption>").format(chart.name, keys)
    if not any(line.points for line in chart.lines):
        return Markup(
            '<figure class="plot">{}<p class="quiet">Nothing was counted yet.</p></figure>'
        ).format(caption)
    label = f"{chart.name} over time: " + ", ".join(
        f"{line.name} {written(chart.unit, line.points[-1][1])} now"
        for line in chart.lines
        if line.points
    )
    return Markup(
        '<figure class="plot">{caption}<svg width="100%" height="{high}" role="img" '
        'aria-label="{label}">{grid}<svg y="{above}" width="100%" height="{plot}" '
        'viewBox="0 0 100 100" preserveAspectRatio="none">{lines}</svg></svg></figure>'
    ).format(
        caption=caption,
        high=_HIGH + _BELOW + _ABOVE,
        label=label,
        grid=_grid(chart, written),
        above=_ABOVE,
        plot=_HIGH,
        lines=Markup("").join(_line(chart, line) for line in chart.lines),
    )


def _grid(chart: Chart, written: Callable[[str, float], str]) -> Markup:
    parts = []
    unit = _unit(chart)
    for count in round_ticks(0.0, chart.top / unit, about=3):
        value = count * unit
        y = _ABOVE + _HIGH * (1 - value / chart.top)
        parts.append(
            Markup(
                '<line class="rule" x1="0" x2="100%" y1="{y}" y2="{y}"/>'
                '<text x="3" y="{up}">{text}</text>'
            ).format(y=f"{y:.1f}", up=f"{y - 3:.1f}", text=written(chart.unit, value))
        )
    begin = chart.at - chart.span_s
    for at, text in clock_ticks(begin, chart.at, about=5):
        place = 100 * (at - begin) / chart.span_s
        if 6 < place < 95:
            parts.append(
                Markup(
                    '<line class="rule" x1="{x}%" x2="{x}%" y1="{above}" y2="{low}"/>'
                    '<text x="{x}%" y="{below}" text-anchor="middle" data-clock="{at}">{text}'
                    "</text>"
                ).format(
                    x=f"{place:.2f}",
                    above=_ABOVE,
                    low=_ABOVE + _HIGH,
                    below=_ABOVE + _HIGH + 14,
                    at=f"{at:.0f}",
                    text=text,
                )
            )
    end = f'<text x="100%" y="{_ABOVE + _HIGH + 14}" text-anchor="end">now</text>'
    return Markup("").join([*parts, Markup(end)])


def _unit(chart: Chart) -> float:
    """Return the amount of which ticks are round numbers: for bytes the largest unit of the top."""
    if chart.unit not in BYTES:
        return 1.0
    return float(2 ** (10 * int(math.log2(max(chart.top, 1.0)) // 10)))


def _line(chart: Chart, line: Line) -> Markup:
    places = [
        (100 * (1 - min(ago / chart.span_s, 1.0)), 100 * (1 - min(value / chart.top, 1.0)))
        for ago, value in line.points
    ]
    parts = []
    for piece in _pieces(places):
        path = "M" + " L".join(f"{x:.2f} {y:.2f}" for x, y in piece)
        if line.kind == "allocated":
            area = f"{path} L{piece[-1][0]:.2f} 100 L{piece[0][0]:.2f} 100 Z"
            parts.append(Markup('<path class="area {}" d="{}"/>').format(line.kind, area))
        parts.append(Markup('<path class="line {}" d="{}"/>').format(line.kind, path))
    return Markup("").join(parts)


def _pieces(places: Sequence[tuple[float, float]]) -> list[list[tuple[float, float]]]:
    """Cut a line where nothing was counted for a while."""
    if len(places) < 3:
        return [list(places)] if places else []
    steps = sorted(later[0] - one[0] for one, later in pairwise(places))
    usual = steps[len(steps) // 2]
    pieces = [[places[0]]]
    for place in places[1:]:
        if place[0] - pieces[-1][-1][0] > _GAP * max(usual, 1e-6):
            pieces.append([])
        pieces[-1].append(place)
    return pieces
