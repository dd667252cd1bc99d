"""Sentences are wrapped to the width of a terminal."""

from __future__ import annotations

import pytest

from phalanx.cli import table


def test_a_long_line_goes_on_below_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table, "terminal_width", lambda: 40)
    text = "short\n  held by llm-pretrain (16 GPU, for 1h53m at most), and 2 more\n\nend"
    assert table.in_lines(text).split("\n") == [
        "short",
        "  held by llm-pretrain (16 GPU, for",
        "    1h53m at most), and 2 more",
        "",
        "end",
    ]


def test_a_name_is_never_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table, "terminal_width", lambda: 10)
    name = "a-name-" * 9
    assert table.in_lines(f"job {name} waits").split("\n") == ["job", f"  {name}", "  waits"]


def test_a_pipe_gets_whole_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table, "terminal_width", lambda: None)
    assert table.in_lines("x " * 90) == "x " * 90
