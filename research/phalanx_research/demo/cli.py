"""The command `phalanx demo`: a search and a training on handwritten digits."""

from __future__ import annotations

from typing import Annotated

from phalanx.cli.ending import Ended
from phalanx.cli.options import Option, Registrar
from phalanx.cli.registry import RESEARCH


def demo(
    trials: Annotated[
        int, Option(min=1, help="Number of hyperparameter settings that the search tries.")
    ] = 24,
    workers: Annotated[
        int | None,
        Option(min=1, help="Number of training actors. Default: one actor for each CPU."),
    ] = None,
    json: Annotated[bool, Option("--json", help="Print the figures as JSON.")] = False,
) -> None:
    """Search hyperparameters and train a model on handwritten digits, with tasks and actors."""
    from phalanx_research.demo import run

    raise Ended(run(trials=trials, workers=workers, json=json))


def register(app: Registrar) -> None:
    """Add the command to `app`."""
    app.command(rich_help_panel=RESEARCH)(demo)
