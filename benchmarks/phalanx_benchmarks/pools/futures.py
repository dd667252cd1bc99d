"""What pools have in common whose `submit` gives a future."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any


class Futures:
    """A pool around an executor."""

    def __init__(self, executor: Any) -> None:
        self._executor = executor

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """See Pool."""
        return self._executor.submit(function, *arguments)

    def results(self, submitted: Sequence[Any]) -> list[Any]:
        """See Pool."""
        return [future.result() for future in submitted]

    def map(self, function: Callable[..., Any], items: Iterable[Any]) -> list[Any]:
        """See Pool."""
        return list(self._executor.map(function, items))

    def share(self, value: Any) -> Any:
        """See Pool. It travels with each call."""
        return value

    def close(self) -> None:
        """See Pool."""
        self._executor.shutdown()
