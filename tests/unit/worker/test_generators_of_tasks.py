"""The values that a `yield` expression returns inside the generator of a task."""

from __future__ import annotations

from collections.abc import Iterator

from phalanx.worker.generators import StreamingGeneratorStats, next_item

STATS = StreamingGeneratorStats(0.25)


def drained(items: Iterator[object]) -> list[object]:
    """Return all items, requested one by one as a worker does."""
    stats, found = None, []
    while True:
        try:
            found.append(next_item(items, stats))
        except StopIteration:
            return found
        stats = STATS


def test_a_yield_of_its_own_gives_the_stats_of_its_item():
    def generator():
        seen = yield 1
        yield seen

    assert drained(generator()) == [1, STATS]


def test_so_does_one_of_a_generator_that_it_delegates_to():
    def inner():
        seen = yield 1
        yield seen

    def generator():
        yield from inner()
        yield (yield 3)

    assert drained(generator()) == [1, STATS, 3, STATS]


def test_items_of_what_is_no_generator_are_delegated_to_unhindered():
    def inner():
        yield from [1, 2]

    def generator():
        yield 0
        yield from inner()
        yield from range(3, 5)

    assert drained(generator()) == [0, 1, 2, 3, 4]


def test_any_iterator_gives_its_items():
    assert drained(iter([1, 2])) == [1, 2]
