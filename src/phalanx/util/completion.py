"""Results as they come, instead of in the order in which they were asked for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from phalanx.api.objects import get, wait

CHUNK_SIZE = 10
IN_FLIGHT = 100


def as_completed(
    refs: Sequence[Any],
    *,
    chunk_size: int = CHUNK_SIZE,
    yield_obj_refs: bool = False,
    **wait_options: Any,
) -> Iterator[Any]:
    """Yield each result (or its ref) soon after it is ready.

    A result is yielded when it is there; of those ready together, `chunk_size` at a time are
    fetched in one call. `wait_options` go to `wait` (`timeout`, `fetch_local`). Raises ValueError
    for a `chunk_size` below 1 and for `num_returns`.
    """
    _check(chunk_size, wait_options)
    return _completed(list(refs), chunk_size, yield_obj_refs, wait_options)


def map_unordered(
    fn: Any,
    items: Iterable[Any],
    *,
    backpressure_size: int | None = IN_FLIGHT,
    chunk_size: int = CHUNK_SIZE,
    yield_obj_refs: bool = False,
    **wait_options: Any,
) -> Iterator[Any]:
    """Call the remote function `fn` on every item and yield results as they come.

    At most `backpressure_size` calls are in flight (None: no limit), so `items` may be endless.
    Raises ValueError for a size below 1 and for `num_returns`.
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


def _check(chunk_size: int, wait_options: dict[str, Any]) -> None:
    if chunk_size < 1:
        raise ValueError(f"chunk_size must be at least 1, got {chunk_size}")
    if "num_returns" in wait_options:
        raise ValueError("num_returns is not taken here: use chunk_size")


def _completed(
    refs: list[Any], chunk_size: int, yield_obj_refs: bool, wait_options: dict[str, Any]
) -> Iterator[Any]:
    while refs:
        ready, refs = _all_ready(refs, wait_options)
        yield from _given(ready, chunk_size, yield_obj_refs)


def _given(ready: list[Any], chunk_size: int, yield_obj_refs: bool) -> Iterator[Any]:
    if yield_obj_refs:
        yield from ready
        return
    for at in range(0, len(ready), chunk_size):
        yield from get(ready[at : at + chunk_size])


def _mapped(
    fn: Any,
    items: Iterable[Any],
    *,
    in_flight: int | None,
    chunk_size: int,
    yield_obj_refs: bool,
    wait_options: dict[str, Any],
) -> Iterator[Any]:
    refs: list[Any] = []
    for item in items:
        refs.append(fn.remote(item))
        if in_flight is not None and len(refs) >= in_flight:
            ready, refs = _all_ready(refs, wait_options)
            yield from _given(ready, chunk_size, yield_obj_refs)
    yield from _completed(refs, chunk_size, yield_obj_refs, wait_options)


def _all_ready(refs: list[Any], wait_options: dict[str, Any]) -> tuple[list[Any], list[Any]]:
    """Wait for one, then take all that are ready by then.

    Nothing ready is held back, and many refs cost few waits: each looks at all of them.
    """
    ready, rest = wait(refs, num_returns=1, **wait_options)
    if ready and rest:
        more, rest = wait(rest, num_returns=len(rest), **{**wait_options, "timeout": 0})
        ready += more
    return ready, rest
