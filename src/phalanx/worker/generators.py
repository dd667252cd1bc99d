"""Generators of tasks, and the values that their `yield` returns."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class StreamingGeneratorStats:  # Ray's name
    """The value that `yield` returns in a streamed generator. It is about the item that the
    generator just gave.
    """

    object_creation_dur_s: float
    """The seconds that it took to pickle and store the item."""


def next_item(items: Iterator[Any], stats: StreamingGeneratorStats | None) -> Any:
    """Return the next item of a generator. If the generator waits at its own `yield`, that `yield`
    returns `stats`.

    If the generator is in a `yield from` of an object that is no generator, it receives None,
    because sending to that object would raise an error. Raises StopIteration after the last item.
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
