"""The field `array` of a job: its indices, in the form of sbatch(1)."""

from __future__ import annotations

import itertools
import re

from phalanx.manifests.findings import Fault
from phalanx.model.jobs.arrays import (
    MAX_ELEMENTS,
    MAX_INDEX,
    MAX_RANGES,
    ArraySpec,
    Indices,
    Range,
)

FORM = "an array is like 0-99, 0-99%10 (ten at once) or 1,3,5-9:2"
_PART = re.compile(r"([0-9]{1,20})(?:-([0-9]{1,20}))?(?::([0-9]{1,20}))?", re.ASCII)
_LIMIT = re.compile(r"[0-9]{1,12}", re.ASCII)


def read_array(written: str) -> ArraySpec:
    """Return the array in a text such as `1,3,5-9:2%4`: its indices and, after `%`, the number of
    array tasks that may run at the same time.

    Raises ValueError that says what is allowed.
    """
    text, has_limit, most = written.strip().partition("%")
    if has_limit and (not _LIMIT.fullmatch(most) or not int(most)):
        raise ValueError(f"after % write how many may run at once, at least 1, not {_cut(most)}")
    ranges = read_ranges(text)
    return ArraySpec(ranges=ranges, limit=int(most) if has_limit else None)


def read_ranges(text: str) -> tuple[Range, ...]:
    """Return the indices in a text such as `1,3,5-9:2` as ascending ranges in which no index occurs
    twice. Raises ValueError.
    """
    found = sorted(_read_part(part.strip(), text) for part in text.split(","))
    _check_size(tuple(found), text)
    if any(following[0] <= before[1] for before, following in itertools.pairwise(found)):
        found = _runs(sorted({i for one in found for i in Indices((one,))}))
    if len(found) > MAX_RANGES:
        raise ValueError(f"it has {len(found):,} ranges; at most {MAX_RANGES:,} are allowed")
    return tuple(found)


def _read_part(part: str, text: str) -> Range:
    found = _PART.fullmatch(part)
    if found is None or (found[3] is not None and found[2] is None):
        raise ValueError(f"{FORM}, not {_cut(text)}")
    first, last, step = int(found[1]), int(found[2] or found[1]), int(found[3] or 1)
    if last > MAX_INDEX:
        raise ValueError(f"an index is at most {MAX_INDEX:,}, not {last:,}")
    if last < first or not step:
        raise ValueError(f"{_cut(part)} has no index: a range goes up, by steps of at least 1")
    last -= (last - first) % step
    return first, last, step if last > first else 1


def _check_size(ranges: tuple[Range, ...], text: str) -> None:
    count = ArraySpec(ranges=ranges).count
    if count > MAX_ELEMENTS:
        raise ValueError(
            f"{_cut(text)} has {count:,} array tasks; at most {MAX_ELEMENTS:,} are allowed"
        )


def _runs(indices: list[int]) -> list[Range]:
    """Return the indices as ranges of successive numbers."""
    runs: list[Range] = []
    for index in indices:
        if runs and runs[-1][1] == index - 1:
            runs[-1] = (runs[-1][0], index, 1)
        else:
            runs.append((index, index, 1))
    return runs


def array_faults(array: ArraySpec | None) -> list[Fault]:
    """Return the faults of an array spec. Manifests are checked when they are read; this check is
    for the specs that programs submit.
    """
    if array is None:
        return []
    try:
        is_same = read_array(written_array(array)) == array
        fault = (
            None
            if is_same
            else "its ranges must ascend, and the end of each range must be one of its indices"
        )
    except ValueError as error:
        fault = str(error)
    return [] if fault is None else [Fault(("spec", "array"), "array_invalid", f"array: {fault}")]


def written_array(array: ArraySpec) -> str:
    """Return an array as text for `read_array`."""
    limit = "" if array.limit is None else f"%{array.limit}"
    return written_ranges(array.ranges) + limit


def written_ranges(ranges: tuple[Range, ...]) -> str:
    """Return the indices of an array as text, without the limit after `%`."""
    return ",".join(map(_written, ranges))


def _written(one: Range) -> str:
    first, last, step = one
    if first == last:
        return str(first)
    return f"{first}-{last}" + (f":{step}" if step != 1 else "")


def _cut(text: str) -> str:
    return f"{text[:60]!a}"
