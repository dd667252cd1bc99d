"""The metrics that programs define, in limited memory, for one process or for all processes of a
node.

The first definition of a name is the valid one. Counters and histograms of several processes are
added up. A gauge has the value that a process set last, and is removed when that process ends.
"""

from __future__ import annotations

import re
from itertools import pairwise

from phalanx.observe.metrics.definitions import (
    COUNTER,
    GAUGE,
    HISTOGRAM,
    MOST_SETS,
    Definition,
    Numbers,
    Sample,
    fits,
)
from phalanx.observe.metrics.meter import Family, merge

MOST_METRICS = 200
"""The largest number of metrics for a node; further metrics are ignored."""
MOST_TAGS = 20
MOST_BOUNDS = 100
MOST_CHARS = 256
"""The largest number of characters of a name, of a tag, and of a tag's value."""
RESERVED = "phalanx_"
"""The beginning of the names of Phalanx's own metrics, which programs cannot use."""
_NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
_TAG = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
_TAKEN = frozenset({"le", "quantile"})
"""Labels that Prometheus uses itself, so that programs cannot use them."""


def check_definition(name: str, definition: Definition) -> None:
    """Raise ValueError if a definition is invalid. The error says what is wrong, what is allowed,
    and what was given.
    """
    if len(name) > MOST_CHARS or not _NAME.fullmatch(name):
        raise ValueError(
            f"metric name {name[:MOST_CHARS]!r}: at most {MOST_CHARS} letters, digits, _ and :, "
            "and no digit first"
        )
    if name.startswith(RESERVED):
        raise ValueError(
            f"metric name {name!r}: names with {RESERVED} belong to the cluster itself"
        )
    if definition.kind not in (COUNTER, GAUGE, HISTOGRAM):
        raise ValueError(f"metric {name}: {definition.kind!r} is not a kind of metric")
    tags = definition.labels
    if len(tags) > MOST_TAGS or len(set(tags)) < len(tags):
        raise ValueError(f"metric {name}: at most {MOST_TAGS} tags, each once, not {len(tags)}")
    for tag in tags:
        is_name = len(tag) <= MOST_CHARS and _TAG.fullmatch(tag) is not None
        if not is_name or tag.startswith("__") or tag in _TAKEN:
            raise ValueError(
                f"metric {name}: tag {tag[:MOST_CHARS]!r}: letters, digits and _, no digit and "
                f"no __ first, and none of {', '.join(sorted(_TAKEN))}"
            )
    bounds = definition.bounds
    is_rising = all(a < b for a, b in pairwise(bounds))
    if len(bounds) > MOST_BOUNDS or not is_rising:
        raise ValueError(f"metric {name}: at most {MOST_BOUNDS} boundaries, each above the last")


class RecordedMetrics:
    """The metrics that programs have defined, by name."""

    def __init__(self) -> None:
        self._families: dict[str, Family] = {}
        self._set_by: dict[tuple[str, tuple[str, ...]], bytes] = {}
        """The process that was the last to set each gauge."""

    def family(self, name: str, definition: Definition) -> Family:
        """Return the numbers of the metric with this name. A new name is added, with this
        definition.

        Raises ValueError for a name that has another definition, for a new name when there are
        MOST_METRICS names already, and for an invalid definition (`check_definition`).
        """
        known = self._families.get(name)
        if known is None:
            check_definition(name, definition)
            if len(self._families) >= MOST_METRICS:
                raise ValueError(f"metric {name}: there are {MOST_METRICS} already")
            known = self._families[name] = Family(definition)
        elif not _is_same(known.definition, definition):
            raise ValueError(
                f"metric {name} is a {_described(known.definition)} already, and cannot be a "
                f"{_described(definition)}: take another name"
            )
        return known

    def take_in(self, numbers: Numbers, process: bytes) -> str:
        """Add a process's counts since its last report, and set its gauges. Returns the reason why
        they are ignored; "" if they are used.
        """
        assert numbers.definition is not None
        definition = _bounded(numbers.definition)
        try:
            family = self.family(numbers.name, definition)
        except ValueError as error:
            return str(error)
        for sample in numbers.samples:
            if not fits(definition, sample) or any(len(x) > MOST_CHARS for x in sample.labels):
                continue
            if definition.kind == GAUGE:
                self._set(numbers.name, family, sample, process)
            else:
                merge(family, sample)
        return ""

    def _set(self, name: str, family: Family, sample: Sample, process: bytes) -> None:
        if len(family.samples) >= MOST_SETS and sample.labels not in family.samples:
            return  # above the bound it is unknown which process set the gauge last
        merge(family, sample)
        self._set_by[name, sample.labels] = process

    def process_gone(self, process: bytes) -> None:
        """Remove the gauges that an ended process was the last to set."""
        for name, labels in [key for key, by in self._set_by.items() if by == process]:
            del self._set_by[name, labels]
            del self._families[name].samples[labels]

    def numbers(self) -> list[Numbers]:
        """Return all numbers."""
        return [
            Numbers(name, list(family.samples.values()), family.definition)
            for name, family in self._families.items()
            if family.samples
        ]

    def drain(self) -> list[Numbers]:
        """Return the counts since the last call and the gauges that were set since, and remove
        them. The definitions stay.
        """
        found = self.numbers()
        for family in self._families.values():
            if family.samples:
                family.samples = {}
        return found


def _bounded(definition: Definition) -> Definition:
    return Definition(
        definition.kind, definition.help[:1_000], definition.labels, definition.bounds
    )


def _is_same(one: Definition, other: Definition) -> bool:
    return (one.kind, one.labels, one.bounds) == (other.kind, other.labels, other.bounds)


def _described(one: Definition) -> str:
    bounds = f" and boundaries {list(one.bounds)}" if one.bounds else ""
    return f"{one.kind} with the tags {list(one.labels)}{bounds}"
