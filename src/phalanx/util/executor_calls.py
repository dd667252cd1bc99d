"""What a task of an executor runs: its process made ready once, then the call."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures.process import BrokenProcessPool
from typing import Any, TypeVar

T = TypeVar("T")

_ready: set[str] = set()
"""The executors for which this process is ready."""


class InitializerFailedError(BrokenProcessPool):
    """The executor's initializer raised, so that no call of it can run."""


def call(fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> T:
    """`fn(*args, **kwargs)`."""
    return fn(*args, **kwargs)


def call_each(fn: Callable[..., T], rows: list[tuple[Any, ...]]) -> list[T]:
    """`fn(*row)` for each row."""
    return [fn(*row) for row in rows]


def call_in_ready_process(
    key: str, initializer: Callable[..., object] | None, initargs: tuple[Any, ...]
) -> Callable[..., Any]:
    """`call`, which first runs `initializer(*initargs)` in a process where it has not run for
    the executor `key`. A function of its own: its pickle goes to each process once."""

    def call_when_ready(fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> T:
        make_ready(key, initializer, initargs)
        return fn(*args, **kwargs)

    return call_when_ready


def make_ready(
    key: str, initializer: Callable[..., object] | None, initargs: tuple[Any, ...]
) -> None:
    """Run the initializer unless it has run. Raises InitializerFailedError."""
    if key in _ready:
        return
    if initializer is not None:
        try:
            initializer(*initargs)
        except Exception as error:
            raise InitializerFailedError(
                f"the initializer {initializer!r} raised {type(error).__name__}: {error}"
            ) from error
    _ready.add(key)
