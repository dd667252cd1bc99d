"""The base of pools whose `submit` returns a future."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any


class Futures:
    """A pool that runs on an executor of `concurrent.futures`."""

    def __init__(self, executor: Any) -> None:
        self._executor = executor

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Any:
        return self._executor.submit(function, *arguments)

    def results(self, submitted: Sequence[Any]) -> list[Any]:
        """Return the results when all of them have arrived."""
        return [future.result() for future in submitted]

    def map(self, function: Callable[..., Any], items: Iterable[Any]) -> list[Any]:
        return list(self._executor.map(function, items))

    def share(self, value: Any) -> Any:
        """Return the value itself, which is sent with each call."""
        return value

    def close(self) -> None:
        self._executor.shutdown()
