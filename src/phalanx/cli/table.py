"""Tables and lines for a terminal or a pipe."""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Sequence

import typer

from phalanx.model.raw_bytes import byte_shown

_PIPE_WIDTH = 100_000
"""Columns of a pipe or a file: nothing is wrapped there, so a row is always a line."""


def table(head: Sequence[str], rows: Sequence[Sequence[str]], right: Collection[str] = ()) -> str:
    """A row a line. Long cells are wrapped where the terminal is too narrow, never cut off.

    `right`: the columns that are aligned to the right.
    """
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    is_terminal = sys.stdout.isatty()
    console = Console(width=None if is_terminal else _PIPE_WIDTH, force_terminal=is_terminal)
    made = Table(box=None, pad_edge=False, header_style="bold")
    for name in head:
        made.add_column(name, overflow="fold", justify="right" if name in right else "left")
    for row in rows:
        made.add_row(*(Text(safe(cell)) for cell in row))
    with console.capture() as captured:
        console.print(made)
    return "\n".join(line.rstrip() for line in captured.get().splitlines())


def safe(text: str) -> str:
    """`text` without anything that steers a terminal: labels and names come from strangers."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else byte_shown(c) or repr(c)[1:-1] for c in text)


def say(text: str, err: bool = False) -> None:
    """Print lines that strangers' names may be part of, without anything that steers a terminal."""
    typer.echo("\n".join(map(safe, text.split("\n"))), err=err)


def report(text: str) -> None:
    """Say what a command has done. One that has more to do does it though nobody reads on."""
    try:
        say(text)
    except BrokenPipeError:
        drop_output()


def open_input() -> None:
    """Where this process was started without an input, give it an empty one: else the next file or
    socket that is opened would be taken for it."""
    try:
        os.fstat(0)
    except OSError:
        os.open(os.devnull, os.O_RDONLY)


def drop_output() -> None:
    """Whoever read what this process prints has gone: from now on it is printed to nobody."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)
