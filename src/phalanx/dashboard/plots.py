"""Drawings of numbers over time as SVG: lines with a grid, labelled axes and a legend.

Positions on the time axis are percentages, so that a plot fills any width without scaling its text.
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
"""The heights in pixels of the drawing, of the times below it, and of the free space above it."""
_SIDE = 58
"""The width in pixels of the column of amounts on the left."""
_NOW_FROM = 84
"""The position on the time axis, in hundredths, from which the text of a time would overlap the
text `now` in the narrowest plot.
"""
_FIRST = 9
"""The position on the time axis, in hundredths, before which the text of a time would be cut off.
"""
_GAP = 4.0
"""The largest distance between two connected points, as a multiple of the usual step. Between
points that are further apart, the line has a gap.
"""


def chart_svg(chart: Chart, written: Callable[[str, float], str]) -> Markup:
    """Return a chart as SVG. `written` returns an amount of a resource as text."""
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
    amounts, levels = _amounts(chart, written)
    moments, times = _times(chart)
    return Markup(
        '<figure class="plot">{caption}<div class="axes"><svg width="{side}" height="{high}" '
        'aria-hidden="true">{amounts}</svg><svg class="curves" height="{high}" role="img" '
        'aria-label="{label}">{levels}{moments}<svg y="{above}" width="100%" height="{plot}" '
        'viewBox="0 0 100 100" preserveAspectRatio="none">{lines}</svg>{times}</svg></div></figure>'
    ).format(
        caption=caption,
        side=_SIDE,
        high=_HIGH + _BELOW + _ABOVE,
        label=label,
        amounts=amounts,
        levels=levels,
        moments=moments,
        times=times,
        above=_ABOVE,
        plot=_HIGH,
        lines=Markup("").join(_line(chart, line) for line in chart.lines),
    )


def _amounts(chart: Chart, written: Callable[[str, float], str]) -> tuple[Markup, Markup]:
    """Return the texts of the amounts, which stand left of the plot, and horizontal lines at these
    amounts.
    """
    texts, rules = [], []
    unit = _unit(chart)
    for count in round_ticks(0.0, chart.top / unit, about=3):
        y = _ABOVE + _HIGH * (1 - count * unit / chart.top)
        rule = '<line class="rule" x1="0" x2="100%" y1="{y:.1f}" y2="{y:.1f}"/>'
        rules.append(Markup(rule).format(y=y))
        said = written(chart.unit, count * unit).replace(".0 ", " ")
        text = '<text x="{x}" y="{y:.1f}" text-anchor="end">{said}</text>'
        texts.append(Markup(text).format(x=_SIDE - 6, y=y + 4, said=said))
    return Markup("").join(texts), Markup("").join(rules)


def _times(chart: Chart) -> tuple[Markup, Markup]:
    """Return vertical lines at round times, and the texts of these times below the plot."""
    rules, texts = [], []
    begin, low = chart.at - chart.span_s, _ABOVE + _HIGH
    for at, text in clock_ticks(begin, chart.at, about=5):
        place = 100 * (at - begin) / chart.span_s
        if 6 < place < 95:
            x = f"{place:.2f}%"
            rule = '<line class="rule" x1="{x}" x2="{x}" y1="{above}" y2="{low}"/>'
            rules.append(Markup(rule).format(x=x, above=_ABOVE, low=low))
        if _FIRST < place < _NOW_FROM:
            label = '<text x="{x}" y="{y}" text-anchor="middle" data-clock="{at:.0f}">{text}</text>'
            texts.append(Markup(label).format(x=x, y=low + 14, at=at, text=text))
    texts.append(Markup('<text x="100%" y="{}" text-anchor="end">now</text>').format(low + 14))
    return Markup("").join(rules), Markup("").join(texts)


def _unit(chart: Chart) -> float:
    """Return the unit in which ticks are round numbers. For bytes it is the largest binary unit up
    to the top value.
    """
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
    """Split a line at gaps, where nothing was counted for a while."""
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
