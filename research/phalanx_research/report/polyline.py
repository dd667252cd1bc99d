"""A plot of lines as SVG: one line for each run, a grid, and labelled axes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from html import escape

from phalanx.dashboard.scales import (
    Scale,
    bounds,
    decade_ticks,
    plain,
    round_ticks,
    seconds,
    time_decades,
    time_ticks,
)
from phalanx_research.report.run import Curve

WIDTH, HEIGHT = 560, 330
LEFT, RIGHT, TOP, BOTTOM = 52, 14, 12, 44
MAX_POINTS = 600


@dataclass(frozen=True, kw_only=True)
class Axis:
    """An axis: its name, whether its values are times in seconds, and its fixed ends, if any."""

    title: str
    times: bool = False
    low: float | None = None
    high: float | None = None
    log: bool = False

    def scale(self, values: list[float], start: float, end: float) -> Scale:
        low, high = bounds(values)
        low = low if self.low is None else self.low
        high = high if self.high is None else self.high
        return Scale(low=low, high=max(high, low + 1e-9), start=start, end=end, log=self.log)

    def ticks(self, scale: Scale) -> list[float]:
        """Return the labelled values on the axis."""
        if self.log:
            decades = time_decades if self.times else decade_ticks
            ticks = decades(scale.low, scale.high)
            if len(ticks) > 1:
                return ticks
        return (time_ticks if self.times else round_ticks)(scale.low, scale.high)

    def label(self, value: float) -> str:
        """Return the text of a value."""
        return seconds(value) if self.times else plain(value)


def line_plot(curves: Mapping[str, Curve], colours: Mapping[str, int], x: Axis, y: Axis) -> str:
    """Return the SVG of the runs' `curves`. `colours` has each run's number in the page's
    palette.
    """
    shown = {name: _within(curve, x, y) for name, curve in curves.items()}
    xs = x.scale([v for c in shown.values() for v in c.x], LEFT, WIDTH - RIGHT)
    ys = y.scale([v for c in shown.values() for v in c.y], HEIGHT - BOTTOM, TOP)
    parts = [
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        f'aria-label="{escape(y.title)} over {escape(x.title)}">'
    ]
    for value in y.ticks(ys):
        at = ys.place(value)
        parts.append(
            f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{at:.1f}" y2="{at:.1f}"/>'
            f'<text class="tick" x="{LEFT - 7}" y="{at + 4:.1f}" text-anchor="end">'
            f"{escape(y.label(value))}</text>"
        )
    for value in x.ticks(xs):
        at = xs.place(value)
        parts.append(
            f'<line class="grid" x1="{at:.1f}" x2="{at:.1f}" y1="{TOP}" y2="{HEIGHT - BOTTOM}"/>'
            f'<text class="tick" x="{at:.1f}" y="{HEIGHT - BOTTOM + 17}" text-anchor="middle">'
            f"{escape(x.label(value))}</text>"
        )
    parts.append(
        f'<text class="axis" x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 6}" '
        f'text-anchor="middle">{escape(x.title)}</text>'
        f'<text class="axis" x="{-(TOP + HEIGHT - BOTTOM) / 2}" y="13" text-anchor="middle" '
        f'transform="rotate(-90)">{escape(y.title)}</text>'
    )
    for name, curve in shown.items():
        points = " ".join(
            f"{xs.place(a):.1f},{ys.place(b):.1f}" for a, b in zip(curve.x, curve.y, strict=True)
        )
        parts.append(
            f'<polyline class="line c{colours[name]}" points="{points}">'
            f"<title>{escape(name)}</title></polyline>"
        )
    return "".join(parts) + "</svg>"


def _within(curve: Curve, x: Axis, y: Axis) -> Curve:
    """Return the points inside the axes' fixed ends, reduced to what a screen can show."""
    low = -float("inf") if x.low is None else x.low
    high = float("inf") if x.high is None else x.high
    kept = [(a, b) for a, b in zip(curve.x, curve.y, strict=True) if low <= a <= high]
    if len(kept) > MAX_POINTS:
        step = (len(kept) - 1) / (MAX_POINTS - 1)
        kept = [kept[round(i * step)] for i in range(MAX_POINTS)]
    return Curve(x=[a for a, _ in kept], y=[b for _, b in kept])
