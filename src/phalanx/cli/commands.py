"""The entry point of the command line.

Plain command lines are read by `plain_words`, without Typer. All others, and all help, go to
`typer_app`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from typing import Any

from phalanx.cli.ending import exiting
from phalanx.cli.options import Group
from phalanx.cli.registry import ENTRIES, definition

_COMPLETION = "_PHALANX_COMPLETE"
"""The variable that a shell sets to ask for completions."""


def main() -> None:
    """Run the command line. Exit with 1 if the output cannot be written."""
    with exiting():
        try:
            run(sys.argv[1:])
        finally:
            if sys.stdout is not None:
                sys.stdout.flush()


def run(words: Sequence[str]) -> None:
    """Run the command that these words name."""
    found = None if _COMPLETION in os.environ else _plain(words)
    if found is not None:
        function, arguments = found
        function(**arguments)
        return
    if list(words) in (["--help"], ["-h"]) and _draw_help():
        return
    from phalanx.cli.typer_app import app

    app(list(words))


def _draw_help() -> bool:
    """Print the help page of all commands. Returns False if only Typer can print it."""
    from phalanx.cli.help_page import Unknown, draw

    try:
        draw()
    except Unknown:
        return False
    return True


def _plain(words: Sequence[str]) -> tuple[Callable[..., None], dict[str, Any]] | None:
    """Return a command's function and its arguments; None if Typer is needed."""
    if not words or words[0] not in ENTRIES:
        return None
    from phalanx.cli.plain_words import NotPlain, read

    target, rest = definition(words[0]), words[1:]
    if isinstance(target, Group):
        target, rest = target.commands.get(rest[0] if rest else ""), rest[1:]
    if not hasattr(target, "__code__"):
        return None
    try:
        return target, read(target, rest)
    except NotPlain:
        return None
