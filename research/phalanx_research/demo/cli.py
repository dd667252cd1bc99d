"""`phalanx demo`: a search and a training on real handwritten digits."""

from __future__ import annotations

from typing import Annotated

import typer

from phalanx.cli.registry import RESEARCH


def demo(
    trials: Annotated[
        int, typer.Option(min=1, help="Number of settings that the search tries.")
    ] = 24,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Number of training actors (default: one per CPU).")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print the figures as JSON.")] = False,
) -> None:
    """Search and train on real handwritten digits, as tasks, actors and shared objects."""
    from phalanx_research.demo import run

    raise typer.Exit(run(trials=trials, workers=workers, json=json))


def register(app: typer.Typer) -> None:
    """Add the command to `app`."""
    app.command(rich_help_panel=RESEARCH)(demo)
