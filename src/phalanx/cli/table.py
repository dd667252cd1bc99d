"""Tables and lines for a terminal or a pipe."""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Sequence

import typer

from phalanx.model.raw_bytes import byte_shown

_PIPE_WIDTH = 100_000
"""Columns of a pipe or a file: so wide that no row is wrapped, and each row is one line."""


def table(head: Sequence[str], rows: Sequence[Sequence[str]], right: Collection[str] = ()) -> str:
    """Return a table with one line per row. A narrow terminal wraps long cells and cuts none off.

    `right`: names of the columns that are aligned to the right.
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
    """Return `text` with control characters escaped: labels and names are untrusted."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else byte_shown(c) or repr(c)[1:-1] for c in text)


def say(text: str, err: bool = False) -> None:
    """Print lines that may hold untrusted names, with control characters escaped."""
    typer.echo("\n".join(map(safe, text.split("\n"))), err=err)


def report(text: str) -> None:
    """Print what a command has done. The command goes on even when the reader has gone."""
    try:
        say(text)
    except BrokenPipeError:
        drop_output()


def open_input() -> None:
    """Open an empty standard input where the process was started without one.

    Otherwise the next file or socket would get descriptor 0 and be taken for the input.
    """
    try:
        os.fstat(0)
    except OSError:
        os.open(os.devnull, os.O_RDONLY)


def drop_output() -> None:
    """Send all further output to /dev/null, as the reader of the output has gone."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)
