"""The command `phalanx help`, which shows what `--help` shows."""

from __future__ import annotations

from typing import Annotated

from phalanx.cli.options import Argument


def help_(
    command: Annotated[
        list[str] | None,
        Argument(help="Command, such as run or queue create. Default: all commands."),
    ] = None,
) -> None:
    """Show the help of a command, as its --help does."""
    from phalanx.cli.commands import run

    run([*(command or []), "--help"])
