"""The line of each key in a TOML file, which `tomllib` does not report."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from typing import Any

_PLACE = re.compile(r" \(at (?:line (?P<line>\d+), column \d+|end of document)\)$")


class SyntaxFault(ValueError):
    """Raised for a text that is not TOML."""

    def __init__(self, text: str, line: int) -> None:
        super().__init__(text)
        self.line = line


def read_toml(text: str) -> dict[str, Any]:
    """Return the tables of a TOML text. Raises SyntaxFault, which has the faulty line."""
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        reason = str(error)
        place = _PLACE.search(reason)
        line = place["line"] if place else None
        raise SyntaxFault(
            _PLACE.sub("", reason), int(line) if line else text.rstrip("\n").count("\n") + 1
        ) from None


def key_lines(text: str) -> dict[tuple[str, ...], int]:
    """Return the number of the line on which each table and key of a valid TOML text begins.

    A statement ends with the first line after which it can be parsed alone. A value over several
    lines cannot be parsed before its last line.

    >>> key_lines("[start]\\nlabels = [\\n  'a=1',\\n]\\nport = 1")
    {('start',): 1, ('start', 'labels'): 2, ('start', 'port'): 5}
    """
    found: dict[tuple[str, ...], int] = {}
    table: tuple[str, ...] = ()
    statement: list[str] = []
    begin = 1
    for number, line in enumerate(text.replace("\r\n", "\n").split("\n"), 1):
        if not statement:
            begin = number
        statement.append(line)
        try:
            part = tomllib.loads("\n".join(statement))
        except tomllib.TOMLDecodeError:
            continue
        is_header = statement[0].lstrip().startswith("[")
        statement.clear()
        paths = list(_paths(part))
        if is_header:
            table = max(paths, key=len)
            found.setdefault(table, begin)
        else:
            for path in paths:
                found.setdefault((*table, *path), begin)
    return found


def _paths(tables: dict[str, Any], above: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for name, value in tables.items():
        yield (*above, name)
        if isinstance(value, dict):
            yield from _paths(value, (*above, name))
