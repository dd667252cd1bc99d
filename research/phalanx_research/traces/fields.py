"""The fields of the rows of a CSV file. An error names the file, the line and the reason."""

from __future__ import annotations

import csv
import gzip
import io
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

from phalanx.scheduler.placement.fragmentation.shape import WHOLE
from phalanx_research.traces.records import TraceError

LARGEST = 10**15
"""The largest amount or time in a trace, so that sums stay exact."""


@dataclass(frozen=True, slots=True)
class Row:
    """The fields of one line."""

    source: str
    line: int
    fields: Mapping[str, str]

    def error(self, reason: str) -> TraceError:
        return TraceError(self.source, self.line, reason)

    def text(self, name: str, default: str | None = None) -> str:
        """Return a field's text; `default` if it is empty or its column is absent."""
        value = self.fields.get(name, "").strip()
        if value:
            return value
        if default is None:
            raise self.error(f"{name} is empty")
        return default

    def number(self, name: str, default: float | None = None) -> float:
        """Return a finite number that is not negative."""
        value = self.optional_number(name)
        if value is not None:
            return value
        if default is None:
            raise self.error(f"{name} is empty; a number is needed")
        return default

    def optional_number(self, name: str) -> float | None:
        """Return a finite number that is not negative, or None if the field is empty."""
        text = self.fields.get(name, "").strip()
        if not text:
            return None
        try:
            value = float(text)
        except ValueError:
            raise self.error(f"{name} is {text!r}; a number is needed") from None
        if not math.isfinite(value) or abs(value) > LARGEST:
            raise self.error(f"{name} is {text}; a number of at most {LARGEST:.0e} is needed")
        if value < 0:
            raise self.error(f"{name} is {text}; it must be 0 or more")
        return value

    def count(self, name: str, default: int | None = None) -> int:
        """Return a whole number that is not negative."""
        value = self.number(name, default)
        if value != int(value):
            raise self.error(f"{name} is {value}; a whole number is needed")
        return int(value)

    def names(self, name: str) -> tuple[str, ...]:
        """Return names that are separated by |, in their order."""
        parts = (p.strip() for p in self.fields.get(name, "").split("|"))
        return tuple(sorted({p for p in parts if p}))

    def gpus(self, count_name: str, milli_name: str, largest: int | None = None) -> tuple[int, int]:
        """Return the number of GPUs, and the thousandths of each. Raises TraceError if the two
        contradict each other.
        """
        count = self.count(count_name, 0)
        milli = self.count(milli_name, WHOLE if count and milli_name not in self.fields else 0)
        if largest is not None and count > largest:
            raise self.error(f"{count_name} is {count}; one pod has at most {largest} GPUs")
        if count == 0 and milli:
            raise self.error(f"{milli_name} is {milli}, but {count_name} is 0: a share of no GPU")
        if count == 1 and not 1 <= milli <= WHOLE:
            raise self.error(f"{milli_name} is {milli}; for one GPU it must be 1 to 1000")
        if count > 1 and milli != WHOLE:
            raise self.error(
                f"{milli_name} is {milli}, but {count_name} is {count}: it must be 1000 where "
                "there are several GPUs"
            )
        return count, milli

    def in_order(self, *names: str) -> None:
        """Check that the times in the named fields do not decrease. Empty fields are ignored."""
        last_name, last = "", -math.inf
        for name in names:
            value = self.optional_number(name)
            if value is None:
                continue
            if value < last:
                raise self.error(
                    f"{name} ({value:g}) is before {last_name} ({last:g}): time runs backwards"
                )
            last_name, last = name, value


def text_of(path: Path) -> str:
    """Return the text of a file. A file whose name ends in .gz is unpacked. Raises TraceError if
    the file cannot be read.
    """
    try:
        raw = path.read_bytes()
        plain = gzip.decompress(raw) if path.suffix == ".gz" else raw
        return plain.decode("utf-8-sig")
    except (OSError, EOFError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise TraceError(str(path), 1, f"cannot be read: {reason}") from None


def check_columns(
    source: str, given: Sequence[str], required: Sequence[str], optional: Sequence[str]
) -> None:
    """Raise TraceError for a column that is missing, unknown or repeated."""
    known = [*required, *optional]
    for name in given:
        if name not in known:
            close = get_close_matches(name, known, n=1)
            hint = f"did you mean {close[0]}? " if close else ""
            raise TraceError(source, 1, f"unknown column {name!r}; {hint}known: {', '.join(known)}")
        if list(given).count(name) > 1:
            raise TraceError(source, 1, f"column {name!r} appears twice")
    missing = [name for name in required if name not in given]
    if missing:
        raise TraceError(
            source, 1, f"missing column {missing[0]!r}; the file has: {', '.join(given)}"
        )


def rows_of(path: Path, required: Sequence[str], optional: Sequence[str] = ()) -> Iterator[Row]:
    """Yield the lines of a CSV file with a header. Raises TraceError for a faulty line."""
    source = str(path)
    lines = csv.reader(io.StringIO(text_of(path), newline=""))
    try:
        header = [name.strip() for name in next(lines, [])]
        if not header:
            raise TraceError(source, 1, "the file is empty; a header is needed")
        check_columns(source, header, required, optional)
        for values in lines:
            if not values:
                continue
            if len(values) != len(header):
                raise TraceError(
                    source, lines.line_num, f"{len(values)} fields; the header has {len(header)}"
                )
            yield Row(source, lines.line_num, dict(zip(header, values, strict=True)))
    except csv.Error as error:
        raise TraceError(source, lines.line_num, f"not a CSV line: {error}") from None


def unique(rows: Iterator[Row], name: str) -> Iterator[Row]:
    """Yield the rows, and check that no two of them have the same value in the field `name`."""
    first: dict[str, int] = {}
    for row in rows:
        key = row.text(name)
        if key in first:
            raise row.error(f"{name} {key!r} is already in line {first[key]}")
        first[key] = row.line
        yield row
