"""Tables have one line for each row in a pipe, and are wrapped in a terminal. No cell can send
control sequences to the terminal.
"""

from __future__ import annotations

import io
import sys

import pytest

from phalanx.cli.table import table
from phalanx.model.readable import amount, size

HEAD = ("NAME", "MEMBERS", "REASON")
LONG = "no node has room for it " * 12


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_row_is_a_line_in_a_pipe() -> None:
    lines = table(HEAD, [("a", "10", LONG), ("longer", "2", "")], right=["MEMBERS"]).splitlines()
    assert lines == [
        "NAME    MEMBERS  REASON",
        f"a            10  {LONG.rstrip()}",
        "longer        2",
    ]


def test_a_terminal_s_width_is_kept_and_nothing_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setattr(sys, "stdout", Terminal())
    shown = table(HEAD, [("a", "10", LONG), ("b", "2", "x" * 100)])
    lines = shown.splitlines()
    assert "\x1b[1m" in lines[0]
    assert all(len(line) <= 60 for line in lines[1:])
    assert shown.count("x") == 100
    assert " ".join(shown.split()).count("room") == 12


def test_no_cell_steers_the_terminal() -> None:
    (_, line) = table(HEAD, [("\x1b[31mred", "[bold]1", "two\nlines")]).splitlines()
    assert line == "\\x1b[31mred  [bold]1  two\\nlines"


def test_amounts() -> None:
    assert [amount(x) for x in (2.0, 0.5, 1 / 3)] == ["2", "0.5", "0.3333"]
    assert [size(x) for x in (0, 1023, 1536, 5 * 2**40)] == ["0 B", "1023 B", "1.5 KiB", "5.0 TiB"]
