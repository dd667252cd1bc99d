"""The function of an executor's tasks: it prepares the process once, then makes the call."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures.process import BrokenProcessPool
from typing import Any, TypeVar

T = TypeVar("T")

_ready: set[str] = set()
"""The keys of the executors whose initializers have run in this process."""


class InitializerFailedError(BrokenProcessPool):
    """Raised for all calls of an executor whose initializer has raised an error."""


def call(fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> T:
    """Return `fn(*args, **kwargs)`."""
    return fn(*args, **kwargs)


def call_each(fn: Callable[..., T], rows: list[tuple[Any, ...]]) -> list[T]:
    """Return `fn(*row)` for each row."""
    return [fn(*row) for row in rows]


def call_in_ready_process(
    key: str, initializer: Callable[..., object] | None, initargs: tuple[Any, ...]
) -> Callable[..., Any]:
    """Return a variant of `call` that first runs `initializer(*initargs)`, but only once in each
    process.

    `key` names the executor. Each executor has its own variant, so that the variant's pickle, with
    the initializer, goes to each process only once.
    """

    def call_when_ready(fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> T:
        make_ready(key, initializer, initargs)
        return fn(*args, **kwargs)

    return call_when_ready


def make_ready(
    key: str, initializer: Callable[..., object] | None, initargs: tuple[Any, ...]
) -> None:
    """Run the initializer unless it has run in this process. Raises InitializerFailedError when it
    raises an error.
    """
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
