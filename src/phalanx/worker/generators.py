"""Generators of tasks: what their `yield` returns."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class StreamingGeneratorStats:  # Ray's name
    """The result of `yield` in a streamed generator, about the item that it gave."""

    object_creation_dur_s: float
    """Seconds that it took to pickle and store the item."""


def next_item(items: Iterator[Any], stats: StreamingGeneratorStats | None) -> Any:
    """Return the next item; a generator that is at a `yield` of its own gets the stats there.

    A generator in a `yield from` of something that is no generator gets None, since sending there
    would raise. Raises StopIteration after the last item.
    """
    if stats is None or not _takes(items):
        return next(items)
    assert isinstance(items, Generator)
    return items.send(stats)


def _takes(items: Any) -> bool:
    while isinstance(items, Generator):
        inner = getattr(items, "gi_yieldfrom", None)
        if inner is None:
            return True
        items = inner
    return False
