"""The benchmark: Ray's rows and our own, on Phalanx and, in the same run, on Ray."""

from __future__ import annotations

from collections.abc import Sequence

GROUPS = (
    "engine",
    "placement",
    "batch",
    "cluster",
    "nodes",
    "scheduling",
    "store",
    "transfer",
    "gangs",
    "ray-engine",
    "ray-calls",
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
    turn, row by row. `group` is one of GROUPS; all leaves out the simulated day of a
    million tasks, which takes minutes.
    """
    # The peer's side imports this package in a Python that may lack what the command needs.
    from phalanx.bench.command import execute

    return execute(peer=peer, json=json, markdown=markdown, rows=rows, quick=quick, group=group)
