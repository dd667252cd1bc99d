"""Tables and lines for a terminal or a pipe."""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Mapping, Sequence
from operator import itemgetter
from typing import TextIO

from phalanx.cli.lost_output import drop_messages, is_lost, lose_output

_USUAL_WIDTH = 80
_BOLD, _PLAIN = "\x1b[1m", "\x1b[0m"


def table(
    head: Sequence[str],
    rows: Sequence[Sequence[str]],
    right: Collection[str] = (),
    ranks: Mapping[str, int] | None = None,
    texts: Collection[str] = (),
) -> str:
    """Return a table with one line for each row. In a narrow terminal, columns are left out, and
    the texts of the last column take several lines, of whole words. Names are never folded.

    `right`: names of the columns that are aligned to the right. `ranks`: when a narrow terminal
    leaves out a column (see `layout.Column`); a column without a rank is always shown.
    `texts`: columns before the last whose texts may be cut.
    """
    from phalanx.cli.layout import Column, table_lines  # most commands print no table

    last = len(head) - 1
    columns = [
        Column(
            name,
            itemgetter(number),
            rank=(ranks or {}).get(name, 0),
            is_right=name in right,
            is_text=number == last or name in texts,
        )
        for number, name in enumerate(head)
    ]
    return "\n".join(bold_head(table_lines(columns, rows, terminal_width(), safe)))


def bold_head(lines: list[str]) -> list[str]:
    """Return the lines of a table. On a terminal, the first line is bold."""
    is_plain = terminal_width() is None or os.environ.get("TERM") in ("dumb", "unknown")
    return lines if is_plain else [f"{_BOLD}{lines[0]}{_PLAIN}", *lines[1:]]


_LEAST_WIDTH = 40
"""The least width to which sentences are wrapped, in characters."""


def terminal_width() -> int | None:
    """Return the width of the output's terminal, in characters; None for a pipe or a file."""
    if sys.stdout is None or not sys.stdout.isatty():
        return None
    given = os.environ.get("COLUMNS", "")
    if given.isdecimal() and int(given) > 0:
        return int(given)
    for fd in (1, 2, 0):
        try:
            columns = os.get_terminal_size(fd).columns
        except OSError:
            continue
        if columns > 0:
            return columns
    return _USUAL_WIDTH


def safe(text: str) -> str:
    """Return `text` with control characters escaped: labels and names are untrusted."""
    if text.isprintable():
        return text
    from phalanx.model.raw_bytes import byte_shown

    return "".join(c if c.isprintable() else byte_shown(c) or repr(c)[1:-1] for c in text)


def echo(text: str, *, err: bool = False, nl: bool = True) -> None:
    """Print text unchanged, and flush it immediately. With `err`, the text goes to standard error,
    and is dropped if it cannot be written. Without `err`, an error of the output is raised as
    OSError.
    """
    try:
        _write(sys.stderr if err else sys.stdout, f"{text}\n" if nl else text)
    except OSError:
        if not err:
            raise
        drop_messages()


def _write(stream: TextIO | None, whole: str) -> None:
    if stream is None:
        return
    try:
        stream.write(whole)
    except UnicodeEncodeError:
        # the locale has no such character, as in a container without one: readers expect UTF-8
        stream.flush()
        stream.buffer.write(whole.encode(errors="surrogateescape"))
    stream.flush()


def say(text: str, err: bool = False) -> None:
    """Print lines that may contain untrusted names, with control characters escaped."""
    if not text.replace("\n", "").isprintable():  # one look at thousands of usual lines
        text = "\n".join(map(_line, text.split("\n")))
    echo(text, err=err)


def in_lines(text: str) -> str:
    """Return sentences in lines that fit into the terminal. The rest of a long line is indented by
    two columns.
    """
    width = terminal_width()
    if width is None:
        return text
    from textwrap import wrap

    lines = []
    for line in text.split("\n"):
        indent = " " * (len(line) - len(line.lstrip()))
        lines += wrap(
            line.strip(),
            max(width, _LEAST_WIDTH),
            initial_indent=indent,
            subsequent_indent=f"{indent}  ",
            break_long_words=False,
            break_on_hyphens=False,
        ) or [""]
    return "\n".join(lines)


def _line(line: str) -> str:
    if line.startswith(_BOLD) and line.endswith(_PLAIN):  # the head of a table
        return f"{_BOLD}{safe(line.removeprefix(_BOLD).removesuffix(_PLAIN))}{_PLAIN}"
    return safe(line)


def report(text: str) -> None:
    """Print the result of a command. The command goes on even if the output cannot be written."""
    try:
        say(text)
    except OSError as error:
        if not is_lost(error):
            raise
        lose_output(error)


def open_input() -> None:
    """Open an empty standard input if the process was started without one. Otherwise the next file
    or socket would get descriptor 0, and would be mistaken for the input.
    """
    try:
        os.fstat(0)
    except OSError:
        os.open(os.devnull, os.O_RDONLY)
