"""The entry point of the command line: the group `phalanx`, whose commands `registry` lists."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from phalanx.cli.lazy_group import LazyGroup
from phalanx.cli.table import drop_output, open_input, say
from phalanx.errors import CurrentDirectoryError

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


@app.callback()
def phalanx(
    version: Annotated[
        bool,
        typer.Option(
            "--version", is_eager=True, callback=_print_version, help="Print the version."
        ),
    ] = False,
) -> None:
    """Tasks, actors and gangs on shared CPUs and GPUs."""


def main() -> None:
    """Run the command line; end silently when the reader of its output has gone."""
    open_input()
    try:
        try:
            app()
        finally:
            if sys.stdout is not None:
                sys.stdout.flush()
    except CurrentDirectoryError as error:
        say(str(error), err=True)
        sys.exit(1)
    except BrokenPipeError:
        drop_output()
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)
