"""Chooses the rows of `phalanx bench`, measures them, and prints the results."""

from __future__ import annotations

import json as json_text
import os
import sys
from collections.abc import Sequence

from rich.console import Console

from phalanx_benchmarks.deciding import (
    decision_groups,
    decision_markdown,
    decision_table,
    measure_group,
)
from phalanx_benchmarks.report import (
    about_machine,
    as_document,
    as_markdown,
    as_tables,
    closing_lines,
    shown,
    times,
)
from phalanx_benchmarks.row import ACTORS, FLOOR, POOLS, RELEASE, Row
from phalanx_benchmarks.rows import ROWS
from phalanx_benchmarks.runner import Result, compare
from phalanx_benchmarks.sides import ENGINES, PeerMissing, Side, peer_sides, phalanx_side

GROUPS = (
    "engine",
    RELEASE,
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
    "scale",
    "processes",
    "objects",
    "jobs",
    "short-commands",
    "people",
    "ray-engine",
    "ray-calls",
    "dashboard",
    "counting",
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
    """Measure rows, and print the results. Returns the exit code: 0; 1 if a row failed; or 2 if the
    measurement could not start. `rows` selects the rows whose names contain one of these texts.
    `peer` names the systems to compare with, such as "ray,dask". Each row is measured on all
    systems alternately. If `peer` does not contain Ray, only the rows of pools and of systems
    of actors are measured. `group` is one of GROUPS; `all` leaves out groups that take minutes or
    much memory (LONG of `deciding`).
    """
    complaint = _complaint(group, rows)
    names = [name.strip() for name in (peer or "").split(",") if name.strip()]
    chosen = _choose(group, rows)
    if names and not set(ENGINES) & set(names):
        chosen = [row for row in chosen if row.group in (POOLS, ACTORS)]
    peers: list[Side] = []
    if complaint is None:
        try:
            peers = peer_sides(names)
        except PeerMissing as missing:
            complaint = str(missing)
    if complaint is not None:
        print(complaint, file=sys.stderr)
        return 2
    # Every row runs on a runtime of its own, whatever cluster runs on this machine.
    os.environ["PHALANX_ADDRESS"] = "local"
    ours = phalanx_side()
    effort_name = "quick" if quick else "full"
    results = _measure(chosen, ours, peers, effort_name)
    decisions = {name: measure_group(name) for name in decision_groups(group)}
    if json:
        document = as_document(results, ours=ours, peers=peers, effort_name=effort_name)
        document["decisions"] = decisions
        print(json_text.dumps(document, indent=2))
    elif markdown:
        parts = [as_markdown(results, peers)] if results else []
        parts += [decision_markdown(name, found) for name, found in decisions.items()]
        print("\n\n".join([*parts, about_machine()]))
    else:
        console = Console()
        for table in as_tables(results, peers):
            console.print(table)
        for line in closing_lines(results, peers):
            console.print(line, highlight=False)
        for name, rows_of_group in decisions.items():
            console.print(decision_table(name, rows_of_group))
    return 1 if any(_failed(result) for result in results) else 0


def _complaint(group: str, rows: Sequence[str] | None) -> str | None:
    if group not in GROUPS:
        return f"--group {group!r} is unknown; the groups are: {', '.join(GROUPS)}."
    if rows and not _choose(group, rows):
        names = "\n  ".join(row.name for row in _choose(group, None))
        return f"no row's name contains any of {', '.join(rows)}; the rows are:\n  {names}"
    return None


def _choose(group: str, rows: Sequence[str] | None) -> list[Row]:
    """Return the group's rows whose names contain one of the texts. Rows of Ray's release
    benchmarks are only returned if they are named.
    """
    if group not in ("engine", "all", RELEASE):
        return []
    of_group = [row for row in ROWS if (row.group == RELEASE) == (group == RELEASE)]
    return [row for row in of_group if not rows or any(text in row.name for text in rows)]


def _failed(result: Result) -> bool:
    return any(outcome.error for outcome in (result.phalanx, *result.peers.values()))


def _measure(
    chosen: Sequence[Row], ours: Side, peers: Sequence[Side], effort_name: str
) -> list[Result]:
    """Measure the rows. A line on standard error is printed after each row."""
    results = []
    for count, result in enumerate(
        compare(chosen, ours=ours, peers=peers, effort_name=effort_name), start=1
    ):
        results.append(result)
        unit = result.row.unit
        own = "plain" if result.row.group == FLOOR else "phalanx"
        parts = [f"{own} {shown(result.phalanx.median, unit)}"]
        for name, outcome in result.peers.items():
            parts.append(f"{name} {shown(outcome.median, unit)}: {times(result.ratio(name))}")
        print(f"[{count}/{len(chosen)}] {result.row.name}: {', '.join(parts)}", file=sys.stderr)
        for name, outcome in (("phalanx", result.phalanx), *result.peers.items()):
            if outcome.error:
                print(f"  {name} failed: {outcome.error}", file=sys.stderr)
    return results
