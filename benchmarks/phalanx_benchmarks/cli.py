"""`phalanx bench`: Phalanx measured beside Ray and other pools."""

from __future__ import annotations

from typing import Annotated

import typer

from phalanx.cli.registry import RESEARCH


def bench(
    peer: Annotated[
        str | None,
        typer.Option(
            help="Measure these systems beside, row by row: ray, multiprocessing, "
            "concurrent.futures, joblib, dask, parsl; several with commas."
        ),
    ] = None,
    rows: Annotated[
        list[str] | None, typer.Option("--row", help="Only rows whose name contains this.")
    ] = None,
    group: Annotated[
        str,
        typer.Option(
            help="engine, placement, batch, plan, cluster, nodes, scheduling, store, transfer, "
            "gangs, simulator, or all; release (Ray's release benchmarks), history, scale, "
            "processes, objects or day take minutes, and are not in all."
        ),
    ] = "engine",
    quick: Annotated[bool, typer.Option(help="Shorter measurements.")] = False,
    markdown: Annotated[bool, typer.Option(help="Print the table for a document.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print JSON, for machines.")] = False,
) -> None:
    """Measure beside Ray and other pools, and how fast placement and batch decide."""
    from phalanx_benchmarks.command import run

    code = run(peer, json=json, markdown=markdown, rows=rows, quick=quick, group=group)
    raise typer.Exit(code)


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(rich_help_panel=RESEARCH)(bench)
