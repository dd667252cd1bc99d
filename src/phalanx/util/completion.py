"""Iterators over results in the order in which they become ready."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from phalanx.api.objects import get, wait

IN_FLIGHT = 100


def as_completed(
    refs: Sequence[Any],
    *,
    chunk_size: int | None = None,
    yield_obj_refs: bool = False,
    **wait_options: Any,
) -> Iterator[Any]:
    """Yield each result (or its reference) when it is ready.

    With a `chunk_size`, results come in groups of that size. A group comes when all its results are
    ready, and has them in the order of `refs`. The last group may be smaller. `wait_options` are
    options of `wait` (`timeout`, `fetch_local`). Raises ValueError for a `chunk_size` below 1 and
    for `num_returns`.

    Example:
        for result in as_completed([square.remote(n) for n in range(10)]):
            print(result)
    """
    _check(chunk_size, wait_options)
    return _completed(list(refs), chunk_size, yield_obj_refs, wait_options)


def map_unordered(
    fn: Any,
    items: Iterable[Any],
    *,
    backpressure_size: int | None = IN_FLIGHT,
    chunk_size: int | None = None,
    yield_obj_refs: bool = False,
    **wait_options: Any,
) -> Iterator[Any]:
    """Call the remote function `fn` on every item, and yield the results as they become ready.

    At most `backpressure_size` calls run or wait at the same time, so `items` may be endless; None
    means no limit. `chunk_size` and `wait_options` are as in `as_completed`. Raises ValueError for
    a size below 1 and for `num_returns`.

    Example:
        total = sum(map_unordered(square, range(1000), backpressure_size=50))
    """
    if backpressure_size is not None and backpressure_size < 1:
        raise ValueError(f"backpressure_size must be None or at least 1, got {backpressure_size}")
    _check(chunk_size, wait_options)
    return _mapped(
        fn,
        items,
        in_flight=backpressure_size,
        chunk_size=chunk_size,
        yield_obj_refs=yield_obj_refs,
        wait_options=wait_options,
    )


def _check(chunk_size: int | None, wait_options: dict[str, Any]) -> None:
    if chunk_size is not None and chunk_size < 1:
        raise ValueError(f"chunk_size must be at least 1, got {chunk_size}")
    if "num_returns" in wait_options:
        raise ValueError("num_returns is not taken here: use chunk_size")


def _completed(
    refs: list[Any], chunk_size: int | None, yield_obj_refs: bool, wait_options: dict[str, Any]
) -> Iterator[Any]:
    while refs:
        ready, refs = _ready(refs, chunk_size, wait_options)
        yield from ready if yield_obj_refs else get(ready)


def _mapped(
    fn: Any,
    items: Iterable[Any],
    *,
    in_flight: int | None,
    chunk_size: int | None,
    yield_obj_refs: bool,
    wait_options: dict[str, Any],
) -> Iterator[Any]:
    refs: list[Any] = []
    for item in items:
        refs.append(fn.remote(item))
        if in_flight is not None and len(refs) >= in_flight:
            ready, refs = _ready(refs, chunk_size, wait_options)
            yield from ready if yield_obj_refs else get(ready)
    yield from _completed(refs, chunk_size, yield_obj_refs, wait_options)


def _ready(
    refs: list[Any], chunk_size: int | None, wait_options: dict[str, Any]
) -> tuple[list[Any], list[Any]]:
    """Return the references to yield next, and the others.

    Without a chunk size, this waits for one reference, and then returns all references that are
    ready. So no ready result is held back. Many references need few waits, which matters because
    each wait looks at all of them.
    """
    ready, rest = wait(refs, num_returns=min(chunk_size or 1, len(refs)), **wait_options)
    if chunk_size is None and ready and rest:
        more, rest = wait(rest, num_returns=len(rest), **{**wait_options, "timeout": 0})
        ready += more
    return ready, rest
