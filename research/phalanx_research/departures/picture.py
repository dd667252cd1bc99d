"""The picture of a comparison: GPUs in use over time under each policy, beside the bound."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

WIDTH, HEIGHT = 760, 380
LEFT, RIGHT, TOP, BOTTOM = 56, 150, 16, 46
COLOURS = ("#0067a5", "#d1560f", "#00806a", "#b3368b", "#8a6d00", "#5b5bd6")
LOWEST = 60.0
"""The percentage at the lower edge."""


def picture(lines: Mapping[str, Sequence[float]], bound_pct: float) -> str:
    """Return the SVG. `lines`: for each policy, the percentage of the GPUs in use in each of equal
    intervals. `bound_pct`: the bound, drawn as a horizontal line.
    """
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" '
        f'viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="12">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>',
    ]
    for value in range(int(LOWEST), 101, 10):
        y = _y(value)
        parts.append(
            f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}" stroke="#dfe3e8"/>'
            f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{value} %</text>'
        )
    for tenth in range(0, 11, 2):
        x, y = _x(tenth / 10), HEIGHT - BOTTOM + 18
        parts.append(f'<text x="{x:.1f}" y="{y}" text-anchor="middle">{10 * tenth} %</text>')
    middle = (LEFT + WIDTH - RIGHT) / 2
    parts.append(
        f'<text x="{middle}" y="{HEIGHT - 8}" text-anchor="middle">'
        "time until the last arrival</text>"
    )
    y = _y(bound_pct)
    parts.append(
        f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}" stroke="#1b1f24" '
        f'stroke-dasharray="6 4"/>'
    )
    legend = [("bound", "#1b1f24"), *zip(lines, COLOURS, strict=False)]
    for (_, values), colour in zip(lines.items(), COLOURS, strict=False):
        points = " ".join(
            f"{_x((i + 0.5) / len(values)):.1f},{_y(max(value, LOWEST)):.1f}"
            for i, value in enumerate(values)
        )
        parts.append(
            f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="1.6"/>'
        )
    for i, (name, colour) in enumerate(legend):
        y = TOP + 12 + 18 * i
        parts.append(
            f'<rect x="{WIDTH - RIGHT + 12}" y="{y - 8}" width="18" height="3" fill="{colour}"/>'
            f'<text x="{WIDTH - RIGHT + 36}" y="{y - 3}">{escape(name)}</text>'
        )
    return "\n".join([*parts, "</svg>", ""])


def _x(part: float) -> float:
    return LEFT + part * (WIDTH - RIGHT - LEFT)


def _y(value: float) -> float:
    return TOP + (100 - value) / (100 - LOWEST) * (HEIGHT - BOTTOM - TOP)
