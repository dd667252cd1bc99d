"""Answers requests about users' shares."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from phalanx.errors import JobCommandError
from phalanx.head.clock import Clock
from phalanx.head.shares.usage_ledger import UsageLedger
from phalanx.manifests.names import free_fault, shown
from phalanx.model.nearest import nearest
from phalanx.model.rows.shares import ShareInfo
from phalanx.protocol.requests.request import Entry
from phalanx.protocol.requests.shares import GetShares, SetShares
from phalanx.scheduler.plugin_parts.fair_tree import Member, standings

MAX_SHARES = 1_000_000
"""The largest number of shares that one user may have."""


class SharesControl:
    """The handlers of requests about shares."""

    def __init__(
        self,
        clock: Clock,
        books: UsageLedger,
        queues: Callable[[], list[str]],
        changed: Callable[[], None],
    ) -> None:
        """`queues` returns the names of all queues. `changed` is called when the order among users
        may have changed.
        """
        self._clock = clock
        self._books = books
        self._queues = queues
        self._changed = changed

    def entries(self) -> list[Entry]:
        """Return the requests that this object answers, each with its handler."""
        return [
            GetShares.handled_by(lambda _, request: self.rows(request.queue)),
            SetShares.handled_by(lambda _, request: self.put(request.queue, request.shares)),
        ]

    def rows(self, queue: str = "") -> list[ShareInfo]:
        """Return the users of one queue, or of all, for display. Raises JobCommandError for an
        unknown queue.
        """
        if queue:
            self._check_queue(queue)
        named = [queue] if queue else self._books.queues
        return [row for name in named for row in self._of_queue(name)]

    def put(self, queue: str, shares: Mapping[str, float | None]) -> list[ShareInfo]:
        """Set the shares of users in a queue. None resets a user to the default. On an error,
        nothing changes.
        """
        self._check_queue(queue)
        for user, number in shares.items():
            fault = free_fault("user", user)
            if fault is None and number is not None and not 0 <= number <= MAX_SHARES:
                fault = f"{number:g} shares of {shown(user)}: allowed: 0 to {MAX_SHARES:,}"
            if fault is not None:
                raise JobCommandError(fault)
        for user, number in shares.items():
            self._books.set_shares(queue, user, number)
        self._changed()
        return self._of_queue(queue)

    def _check_queue(self, name: str) -> None:
        known = self._queues()
        if name not in known:
            hint = nearest(name, dict.fromkeys(known))
            raise JobCommandError(f"there is no queue {shown(name)}{hint}")

    def _of_queue(self, queue: str) -> list[ShareInfo]:
        users = self._books.users(queue, self._clock.wall())
        books = self._books.of(queue)
        shares = sum(user.shares for user in users.values())
        used = sum(user.use for user in users.values())
        found = standings([Member(name, one.shares, one.use) for name, one in users.items()])
        return [
            ShareInfo(
                queue=queue,
                user=name,
                shares=one.shares,
                is_set=books[name].shares is not None,
                part=one.shares / shares if shares else 0.0,
                use=one.use,
                use_part=one.use / used if used else 0.0,
                level_fairshare=_finite(found[name].level_fairshare),
                rank=found[name].rank,
                rate=books[name].rate,
            )
            for name, one in sorted(users.items())
        ]


def _finite(number: float) -> float | None:
    return None if math.isinf(number) else number
