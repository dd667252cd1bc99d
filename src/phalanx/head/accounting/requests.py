"""Answers requests about what jobs used."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

from phalanx.errors import HistoryUnavailableError
from phalanx.head.accounting.ledger import Ledger
from phalanx.model.principals import JOB
from phalanx.model.steps import Step
from phalanx.observe.accounting.questions import (
    AttemptPage,
    AttemptQuery,
    UsageQuery,
    UsageRow,
    check_attempts,
    check_usage,
)
from phalanx.protocol.requests.accounting import GetUsage, ListAttempts
from phalanx.protocol.requests.request import LATER, Asker, Entry, Later

T = TypeVar("T")
Q = TypeVar("Q", AttemptQuery, UsageQuery)


class AccountingRequests:
    """Answers requests by looking records up in the ledger."""

    def __init__(
        self, ledger: Ledger | None, running: Callable[[AttemptQuery], list[Step]]
    ) -> None:
        """`ledger`: None if no history is kept. `running` returns the running steps that match a
        query, latest start first.
        """
        self._kept_in = ledger
        self._running = running

    @property
    def _ledger(self) -> Ledger:
        """Return the ledger. Raises HistoryUnavailableError if no history is kept."""
        if self._kept_in is None:
            raise HistoryUnavailableError(
                "This cluster keeps no history of jobs: only one with a head of its own does "
                "(`phalanx start --head`)."
            )
        return self._kept_in

    def entries(self) -> list[Entry]:
        """Return the requests that this object answers, each with its handler."""
        return [
            ListAttempts.handled_by(self._list_attempts),
            GetUsage.handled_by(self._get_usage),
        ]

    def _list_attempts(self, asker: Asker[AttemptPage], request: ListAttempts) -> Later:
        check_attempts(request.query)
        answered = _answering(asker)
        query = _seen_by(asker, request.query)
        if query is None:
            answered(AttemptPage(attempts=[]))
            return LATER

        def with_running(page: AttemptPage | Exception) -> None:
            if isinstance(page, AttemptPage):
                steps = [*self._running(query), *page.steps]
                is_cut = page.is_cut or len(steps) > query.limit
                page = msgspec.structs.replace(page, steps=steps[: query.limit], is_cut=is_cut)
            answered(page)

        self._ledger.attempts(query, with_running)
        return LATER

    def _get_usage(self, asker: Asker[list[UsageRow]], request: GetUsage) -> Later:
        check_usage(request.query)
        query = _seen_by(asker, request.query)
        if query is None:
            asker.reply([])
        else:
            self._ledger.usage(query, _answering(asker))
        return LATER


def _seen_by(asker: Asker[Any], query: Q) -> Q | None:
    """Return the query restricted to the jobs that the asker may see; None if the asker may see
    none of them.
    """
    principal = asker.principal
    if principal is None or principal.kind != JOB:
        return query
    if query.users and principal.user not in query.users:
        return None
    return msgspec.structs.replace(query, users=[principal.user])


def _answering(asker: Asker[T]) -> Callable[[T | Exception], None]:
    def answered(answer: T | Exception) -> None:
        if isinstance(answer, Exception):
            asker.fail(answer)
        else:
            asker.reply(answer)

    return answered
