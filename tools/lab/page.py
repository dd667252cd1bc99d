"""The transcript of the lab, as a page of the tutorials."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

_WIDTH = 100
_VARYING = (
    (re.compile(r"\b\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(\.\d+)?\b"), "2027-01-31 09:00:00"),
    (re.compile(r"phx-lab-\d+"), "lab"),
)
"""Pairs: a pattern for a part of an output that differs from run to run, and the text that the page
has instead.
"""


class Page:
    """The text of the page. Everything is also printed while the lab runs."""

    def __init__(self) -> None:
        self._parts: list[str] = []

    def title(self, text: str) -> None:
        self._add(f"# {text}")

    def part(self, text: str) -> None:
        self._add(f"## {text}")

    def say(self, text: str) -> None:
        """Add a paragraph."""
        words = " ".join(text.split())
        lines = textwrap.wrap(words, _WIDTH, break_long_words=False, break_on_hyphens=False)
        self._add("\n".join(lines))

    def file(self, name: str, text: str) -> None:
        self._add(f"`{name}`:\n\n```toml\n{text.strip()}\n```")

    def command(self, prompt: str, command: str, output: str) -> None:
        """Add a command and what it printed."""
        for pattern, usual in _VARYING:
            output = pattern.sub(usual, output)
        lines = [f"{prompt}$ {command}", *output.rstrip().splitlines()]
        self._add("```console\n" + "\n".join(line.rstrip() for line in lines) + "\n```")

    def write(self, path: Path) -> None:
        path.write_text("\n\n".join(self._parts) + "\n")

    def _add(self, part: str) -> None:
        self._parts.append(part)
        print(part, end="\n\n", flush=True)
