"""`phalanx demo`: a search and a training on real handwritten digits."""

from __future__ import annotations

from typing import Annotated

import typer

from phalanx.cli.registry import RESEARCH


def demo(
    trials: Annotated[int, typer.Option(min=1, help="Settings that the search tries.")] = 24,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Training actors (default: one a CPU).")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON, for machines.")] = False,
) -> None:
    """Search and train on real handwritten digits, as tasks, actors and shared objects."""
    from phalanx_research.demo import run

    raise typer.Exit(run(trials=trials, workers=workers, json=json))


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(rich_help_panel=RESEARCH)(demo)
