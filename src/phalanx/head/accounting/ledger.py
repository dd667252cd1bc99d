"""The interface of the ledger, which keeps the records of attempts. See `storage.ledger`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from phalanx.model.steps import LedgerRow
from phalanx.observe.accounting.questions import AttemptPage, AttemptQuery, UsageQuery, UsageRow

T = TypeVar("T")
Answered = Callable[[T | Exception], None]


class Ledger(Protocol):
    """Stores records and looks records up. The head does not wait for the ledger: results arrive
    later, through callbacks in the head's loop.
    """

    def add(self, rows: Sequence[LedgerRow], kept: Callable[[], None]) -> None:
        """Add these rows, except those whose key is stored already. `kept` is called when the rows
        are durable.
        """
        ...

    def attempts(self, query: AttemptQuery, answered: Answered[AttemptPage]) -> None:
        """Look up attempts, and pass them to `answered`. The attempts that ended last come
        first.
        """
        ...

    def usage(self, query: UsageQuery, answered: Answered[list[UsageRow]]) -> None:
        """Look up sums of what jobs used, and pass them to `answered`."""
        ...
