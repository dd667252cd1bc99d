"""Each row of docs/reference/limits.md names a constant that exists, and states its value."""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "limits.md"
UNITS = {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "%": 0.01}


def rows() -> Iterator[tuple[str, str, str]]:
    for line in PAGE.read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("|") and len(cells) == 4 and cells[2].startswith("`"):
            yield cells[2].strip("`"), cells[1], cells[0]


ROWS = list(rows())


def constant(path: str) -> Any:
    """Return the value of the constant `module.NAME`, or the default of `module.Class.field`."""
    module, _, name = path.rpartition(".")
    if module.rpartition(".")[2][0].isupper():
        module, _, owner = module.rpartition(".")
        return getattr(getattr(importlib.import_module(f"phalanx.{module}"), owner)(), name)
    return getattr(importlib.import_module(f"phalanx.{module}"), name)


def value(text: str) -> float:
    """Return the number of a limit as pages write it: 95 MiB, 1,000,000 bytes, 30 %, 2^63, 60 s."""
    number, _, unit = text.partition(" ")
    base, _, power = number.replace(",", "").partition("^")
    return float(base) ** (int(power) if power else 1) * UNITS.get(unit, 1)


def test_the_page_is_read() -> None:
    assert len(ROWS) > 50
    assert len({path for path, _, _ in ROWS}) == len(ROWS)


@pytest.mark.parametrize(("path", "text", "what"), ROWS, ids=[path for path, _, _ in ROWS])
def test_a_row_has_the_value_of_its_constant(path: str, text: str, what: str) -> None:
    found = constant(path)
    if isinstance(found, str):
        assert re.search(rf"\b{found}\b", what)
    else:
        assert value(text) == pytest.approx(found), what
