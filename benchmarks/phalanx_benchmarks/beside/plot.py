"""Draws the figures of both sides for each workload, as SVG."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape

from phalanx_benchmarks.beside.workloads import Outcome, Pair

_FIGURES: tuple[tuple[str, Callable[[Outcome], float]], ...] = (
    ("mean wait, s", lambda one: one.mean_s),
    ("95th percentile of waits, s", lambda one: one.p95_s),
    ("makespan, s", lambda one: one.makespan_s),
)
_COLORS = {"Slurm": "#9aa4b2", "Phalanx": "#2f6fde"}
_WIDTH, _HEIGHT, _BAR, _LEFT, _TOP = 300, 170, 9, 34, 40


def drawing(found: Sequence[Pair]) -> str:
    """Return one panel for each figure, with two bars for each workload."""
    width, height = len(_FIGURES) * _WIDTH + 10, _TOP + _HEIGHT + 34
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}"'
        ' font-family="sans-serif" font-size="11" fill="#333">',
        f'<rect width="{width}" height="{height}" fill="#fff"/>',
    ]
    for place, (name, color) in enumerate(_COLORS.items()):
        at = _LEFT + place * 80
        parts.append(f'<rect x="{at}" y="8" width="10" height="10" fill="{color}"/>')
        parts.append(f'<text x="{at + 14}" y="17">{name}</text>')
    for panel, (title, read) in enumerate(_FIGURES):
        parts += _panel(panel * _WIDTH, title, [(read(p.theirs), read(p.ours)) for p in found])
        labels = enumerate(p.seed for p in found)
        parts += [
            _text(_middle(panel * _WIDTH, at), _TOP + _HEIGHT + 14, seed) for at, seed in labels
        ]
    return "\n".join([*parts, "</svg>", ""])


def _panel(left: float, title: str, pairs: Sequence[tuple[float, float]]) -> list[str]:
    most = max(max(pair) for pair in pairs)
    bottom = _TOP + _HEIGHT
    parts = [
        f'<text x="{left + _LEFT}" y="{_TOP - 6}" font-weight="bold">{escape(title)}</text>',
        f'<line x1="{left + _LEFT}" y1="{bottom}" x2="{left + _WIDTH - 8}" y2="{bottom}"'
        ' stroke="#333"/>',
    ]
    for part in (0.5, 1.0):
        y = bottom - part * _HEIGHT
        parts.append(_text(left + _LEFT - 16, y + 4, f"{part * most:.0f}"))
        parts.append(
            f'<line x1="{left + _LEFT}" y1="{y}" x2="{left + _WIDTH - 8}" y2="{y}" stroke="#ddd"/>'
        )
    for at, pair in enumerate(pairs):
        for side, (value, color) in enumerate(zip(pair, _COLORS.values(), strict=True)):
            tall = value / most * _HEIGHT
            x = _middle(left, at) - _BAR + side * _BAR
            parts.append(
                f'<rect x="{x}" y="{bottom - tall:.1f}" width="{_BAR - 1}" height="{tall:.1f}"'
                f' fill="{color}"/>'
            )
    return parts


def _middle(left: float, at: int) -> float:
    return left + _LEFT + 14 + at * (2 * _BAR + 7)


def _text(x: float, y: float, text: object) -> str:
    return f'<text x="{x}" y="{y}" text-anchor="middle">{text}</text>'
