"""The command behind `phalanx bench`: choose rows, measure, print."""

from __future__ import annotations

import json as json_text
import os
import sys
from collections.abc import Sequence

from rich.console import Console

from phalanx.bench.deciding import decision_groups, decision_table, measure_group
from phalanx.bench.report import FLOOR, as_document, as_markdown, as_tables, closing_lines, shown
from phalanx.bench.row import Row
from phalanx.bench.rows import ROWS
from phalanx.bench.runner import PeerMissing, Result, Side, compare, phalanx_side, ray_side

PEERS = ("ray",)
GROUPS = (
    "engine",
    "placement",
    "batch",
    "plan",
    "cluster",
    "nodes",
    "scheduling",
    "store",
    "history",
    "transfer",
    "gangs",
    "ray-engine",
    "ray-calls",
    "dashboard",
    "simulator",
    "day",
    "all",
)


def run(
    peer: str | None = None,
    *,
    json: bool = False,
    markdown: bool = False,
    rows: Sequence[str] | None = None,
    quick: bool = False,
    group: str = "engine",
) -> int:
    """Measure and print; the exit code is 0, 1 when a row failed, 2 when it could not begin.

    `rows` keeps the rows whose name contains any of the texts. `peer="ray"` measures Ray's own in
    turn, row by row. `group` is one of GROUPS; all leaves out the simulated day of a million tasks,
    which takes minutes.
    """
    complaint = _complaint(peer, group, rows)
    chosen = _choose(rows) if group in ("engine", "all") else []
    peer_side = None
    if complaint is None and peer is not None and chosen:
        try:
            peer_side = ray_side()
        except PeerMissing as missing:
            complaint = str(missing)
    if complaint is not None:
        print(complaint, file=sys.stderr)
        return 2
    # Everything is measured on runtimes of its own, whatever cluster runs on this machine.
    os.environ["PHALANX_ADDRESS"] = "local"
    ours = phalanx_side()
    effort_name = "quick" if quick else "full"
    results = _measure(chosen, ours, peer_side, effort_name)
    decisions = {name: measure_group(name) for name in decision_groups(group)}
    if json:
        document = as_document(results, ours=ours, peer=peer_side, effort_name=effort_name)
        document["decisions"] = decisions
        print(json_text.dumps(document, indent=2))
    elif markdown:
        print(as_markdown(results, peer_side))
    else:
        console = Console()
        for table in as_tables(results, peer_side):
            console.print(table)
        for line in closing_lines(results):
            console.print(line, highlight=False)
        for name, rows_of_group in decisions.items():
            console.print(decision_table(name, rows_of_group))
    return 1 if any(_failed(result) for result in results) else 0


def _complaint(peer: str | None, group: str, rows: Sequence[str] | None) -> str | None:
    if peer is not None and peer not in PEERS:
        return f"--peer is {peer!r}; the peers are: {', '.join(PEERS)}."
    if group not in GROUPS:
        return f"--group is {group!r}; the groups are: {', '.join(GROUPS)}."
    if rows and not _choose(rows):
        names = "\n  ".join(row.name for row in ROWS)
        return f"no row has any of {', '.join(rows)} in its name; the rows are:\n  {names}"
    return None


def _choose(rows: Sequence[str] | None) -> list[Row]:
    return [row for row in ROWS if not rows or any(text in row.name for text in rows)]


def _failed(result: Result) -> bool:
    return bool(result.phalanx.error or (result.peer and result.peer.error))


def _measure(
    chosen: Sequence[Row], ours: Side, peer: Side | None, effort_name: str
) -> list[Result]:
    """Measure, with one plain line a row on standard error, as soon as it is there."""
    results = []
    for count, result in enumerate(
        compare(chosen, ours=ours, peer=peer, effort_name=effort_name), start=1
    ):
        results.append(result)
        unit = result.row.unit
        own = "plain" if result.row.group == FLOOR else "phalanx"
        parts = [f"{own} {shown(result.phalanx.median, unit)}"]
        if result.peer:
            parts.append(f"ray {shown(result.peer.median, unit)}")
        if result.ratio:
            parts.append(f"{result.ratio:.1f} times better")
        print(f"[{count}/{len(chosen)}] {result.row.name}: {', '.join(parts)}", file=sys.stderr)
        for name, outcome in (("phalanx", result.phalanx), ("ray", result.peer)):
            if outcome and outcome.error:
                print(f"  {name} failed: {outcome.error}", file=sys.stderr)
    return results
