"""The group `phalanx` as a Typer app, for help, completion, errors and all unusual command
lines.
"""

from __future__ import annotations

from typing import Annotated

import typer

from phalanx.cli.lazy_group import LazyGroup
from phalanx.cli.registry import HELP

app = typer.Typer(
    name="phalanx",
    cls=LazyGroup,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(is_wanted: bool) -> None:
    if is_wanted:
        from phalanx.cli.version import version

        version()
        raise typer.Exit


@app.callback(help=HELP)
def phalanx(
    version: Annotated[
        bool,
        typer.Option(
            "--version", is_eager=True, callback=_print_version, help="Print the version."
        ),
    ] = False,
) -> None:
    """Handle the options before the command."""
