"""The heat map: a cell for every GPU of every node, with nodes grouped by GPU model."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from phalanx_research.report.run import HeatNode

LEVELS = 6
"""The number of shades. Shade 0 is an idle GPU, the highest shade a full GPU, and the shades
between them are partly used GPUs.
"""
CELL, GAP, COLUMNS = 5, 2, 152
"""The pixels of a cell's side and of the gap between nodes, and the number of nodes in a row."""


def heat_map(nodes: Sequence[HeatNode]) -> str:
    """Return HTML with a block for each GPU model. Each node is a column of cells; the fullest
    nodes come first.
    """
    models = sorted({n.model for n in nodes}, key=lambda m: (-_devices(nodes, m), m))
    return "".join(_block(model, [n for n in nodes if n.model == model]) for model in models)


def _devices(nodes: Sequence[HeatNode], model: str) -> int:
    return sum(len(n.used_pct) for n in nodes if n.model == model)


def _block(model: str, nodes: list[HeatNode]) -> str:
    nodes.sort(key=lambda n: (-sum(n.used_pct) / max(1, len(n.used_pct)), n.name))
    most = max(len(n.used_pct) for n in nodes)
    row_height = most * CELL + 2 * GAP
    paths = [""] * LEVELS
    for number, node in enumerate(nodes):
        x = number % COLUMNS * (CELL + GAP)
        y = number // COLUMNS * row_height
        cells = [_level(p) for p in node.used_pct]
        begin = 0
        for end in range(1, len(cells) + 1):
            if end == len(cells) or cells[end] != cells[begin]:
                paths[cells[begin]] += f"M{x} {y + begin * CELL}h{CELL}v{(end - begin) * CELL}h-5z"
                begin = end
    width = min(len(nodes), COLUMNS) * (CELL + GAP)
    height = -(-len(nodes) // COLUMNS) * row_height
    devices = sum(len(n.used_pct) for n in nodes)
    used = sum(sum(n.used_pct) for n in nodes) / max(1, devices)
    shades = "".join(f'<path class="h{i}" d="{d}"/>' for i, d in enumerate(paths) if d)
    return (
        f'<figure class="heat"><figcaption><b>{escape(model or "no model")}</b> '
        f"{len(nodes):,} nodes, {devices:,} GPUs, {used:.1f} % in use</figcaption>"
        f'<svg viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img" '
        f'aria-label="use of each GPU of model {escape(model)}">{shades}</svg></figure>'
    )


def _level(used_pct: float) -> int:
    """Return the shade: 0 only for an idle GPU, the highest only for a full GPU."""
    if used_pct <= 0:
        return 0
    if used_pct >= 100:
        return LEVELS - 1
    return 1 + int(used_pct / 100 * (LEVELS - 2))
