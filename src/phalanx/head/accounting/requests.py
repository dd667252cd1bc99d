"""Questions about what jobs used."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from phalanx.errors import HistoryUnavailableError
from phalanx.head.accounting.ledger import Ledger
from phalanx.observe.accounting.questions import (
    AttemptPage,
    UsageRow,
    check_attempts,
    check_usage,
)
from phalanx.protocol.requests.accounting import GetUsage, ListAttempts
from phalanx.protocol.requests.request import LATER, Asker, Handler, Later, Request

T = TypeVar("T")


class AccountingRequests:
    """Passes them on to the ledger."""

    def __init__(self, ledger: Ledger | None) -> None:
        """`ledger`: None where no history is kept."""
        self._kept_in = ledger

    @property
    def _ledger(self) -> Ledger:
        """Raises HistoryUnavailableError where there is none."""
        if self._kept_in is None:
            raise HistoryUnavailableError(
                "This cluster keeps no history of jobs: only one with a head of its own does "
                "(`phalanx start --head`)."
            )
        return self._kept_in

    def entries(self) -> list[tuple[type[Request[Any]], Handler]]:
        """For RequestHandlers."""
        return [
            ListAttempts.handled_by(self._list_attempts),
            GetUsage.handled_by(self._get_usage),
        ]

    def _list_attempts(self, asker: Asker[AttemptPage], request: ListAttempts) -> Later:
        check_attempts(request.query)
        self._ledger.attempts(request.query, _answering(asker))
        return LATER

    def _get_usage(self, asker: Asker[list[UsageRow]], request: GetUsage) -> Later:
        check_usage(request.query)
        self._ledger.usage(request.query, _answering(asker))
        return LATER


def _answering(asker: Asker[T]) -> Callable[[T | Exception], None]:
    def answered(answer: T | Exception) -> None:
        if isinstance(answer, Exception):
            asker.fail(answer)
        else:
            asker.reply(answer)

    return answered
