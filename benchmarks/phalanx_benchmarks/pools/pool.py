"""The interface that each system implements for the rows about pools."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

CPUS = os.cpu_count() or 1
"""The number of processes in each pool."""


class Pool(Protocol):
    """Processes that run functions.

    The functions are Python's own (`abs`, `len`), so that each system can pickle them.
    """

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Submit a call. Returns an object for `results`."""
        ...

    def results(self, submitted: Sequence[Any]) -> list[Any]:
        """Return the results when all of them have arrived."""
        ...

    def map(self, function: Callable[..., Any], items: Iterable[Any]) -> list[Any]:
        """Return the results for all items, computed in the system's way for many items."""
        ...

    def share(self, value: Any) -> Any:
        """Return the value in the best form for passing it to many calls."""
        ...

    def close(self) -> None:
        """End the processes."""
        ...
