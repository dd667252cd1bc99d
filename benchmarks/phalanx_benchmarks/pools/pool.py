"""What a row about pools asks of each system."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

CPUS = os.cpu_count() or 1
"""How many processes each pool has."""


class Pool(Protocol):
    """Processes that run functions. The functions are Python's own (`abs`, `len`), so that each
    system can pickle them."""

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Have it called; what comes back is for `results`."""
        ...

    def results(self, submitted: Sequence[Any]) -> list[Any]:
        """The results, once all are there."""
        ...

    def map(self, function: Callable[..., Any], items: Iterable[Any]) -> list[Any]:
        """The results for all items, by the way that the system itself offers for many."""
        ...

    def share(self, value: Any) -> Any:
        """The value as it is best given to many calls."""
        ...

    def close(self) -> None:
        """End the processes."""
        ...
