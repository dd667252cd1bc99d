"""Generators of tasks: what their `yield` returns."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class StreamingGeneratorStats:  # Ray's name
    """The result of `yield` in a streamed generator, about the item that the generator gave."""

    object_creation_dur_s: float
    """The seconds that pickling and storing the item took."""


def next_item(items: Iterator[Any], stats: StreamingGeneratorStats | None) -> Any:
    """Return the next item. A generator that stands at its own `yield` receives the stats there.

    A generator in a `yield from` of something that is not a generator receives None, because
    sending there would raise an error. Raises StopIteration after the last item.
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
