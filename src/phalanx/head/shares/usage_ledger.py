"""The usage of every user in every queue, kept as work begins and ends, and across restarts.

Usage is computed from starts and ends, and never sampled. A row is written whenever work ends. A
restarted head charges running work from the time of the user's last row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import msgspec

from phalanx.head.gangs.gang import Gang
from phalanx.head.gangs.member_lifecycle import Move
from phalanx.head.gangs.member_states import HELD, PLACING
from phalanx.head.shares.user_usage import Key, Running, UserUsage
from phalanx.scheduler.cycle.config import Configuration
from phalanx.scheduler.cycle.specs import Shape, UserShare
from phalanx.scheduler.plugin_parts.billing import terms_in

TABLE = "shares"
MAX_BOOKS = 10_000
"""The largest number of pairs of a queue and a user that are remembered."""
_CHARGED = frozenset({PLACING, HELD})
"""The states of members that the scheduler counts as running."""

Keep = Callable[[str, bytes, "UsageRow | None"], None]
"""Writes a row to a table, under its key; None deletes the row."""


class UsageRow(msgspec.Struct, frozen=True, kw_only=True):
    """The usage of a user in a queue, as stored. `use` is in billing units times seconds, at the
    time `at`.
    """

    queue: str
    user: str
    use: float = 0.0
    at: float = 0.0
    shares: float | None = None


class UsageLedger:
    """The usage of all users. This class follows the life cycle of members, and plugins use it as a
    LentLedger.
    """

    def __init__(
        self,
        keep: Keep,
        wall: Callable[[], float],
        config: Configuration,
        shape_of: Callable[[Gang, int], Shape],
    ) -> None:
        """`wall` returns seconds since the epoch. `config`: the scheduler's rules, which define
        billing units. `shape_of` returns the shape of a member's request.
        """
        self._shape_of = shape_of
        self._keep = keep
        self._wall = wall
        self.terms = terms_in(config)
        self._books: dict[str, dict[str, UserUsage]] = {}
        """The usage by queue and user."""
        self._charged: dict[Key, tuple[str, str]] = {}
        """The queue and the user that are charged for each member."""
        self._count = 0

    def rules_changed(self, config: Configuration) -> None:
        """Bill by these rules from now on. Earlier bills do not change."""
        self.terms = terms_in(config)

    # ---- charging ----------------------------------------------------------------------------

    def members_moved(self, gang: Gang, move: Move) -> None:
        """Start or stop charging for members that have started or stopped running."""
        now, ended = self._wall(), set()
        for index in move.indexes:
            key = gang.gang_id, index
            if gang.members[index].state in _CHARGED:
                if key not in self._charged:
                    self._begin(gang, index, now, now)
            elif key in self._charged:
                payer = self._charged.pop(key)
                self._books[payer[0]][payer[1]].end(key, now, self.terms)
                ended.add(payer)
        for queue, user in ended:
            self._write(queue, user)

    def gang_known(self, gang: Gang) -> None:
        """Charge for the running members of a restored gang."""
        now = self._wall()
        for index, member in enumerate(gang.members):
            if member.state in _CHARGED:
                self._begin(gang, index, member.started if member.started is not None else now, now)

    def _begin(self, gang: Gang, index: int, began: float, now: float) -> None:
        key = gang.gang_id, index
        rate = self.terms.rate(self._shape_of(gang, index).request)
        self._charged[key] = gang.queue, gang.user
        self._open(gang.queue, gang.user).begin(key, Running(began, rate), now, self.terms)

    def clock_stepped(self, step_s: float) -> None:
        """Shift the recorded times after the clock was stepped by this many seconds, so that the
        step neither adds nor removes usage.
        """
        for queue, books in self._books.items():
            for user, book in books.items():
                book.clock_stepped(step_s)
                self._write(queue, user)

    def set_shares(self, queue: str, user: str, shares: float | None) -> None:
        """Set the shares of a user in a queue. None resets the shares to one, the default."""
        book = self._open(queue, user)
        book.shares = shares
        self._write(queue, user)

    def load(self, rows: Iterable[UsageRow]) -> None:
        """Restore stored usage."""
        for row in rows:
            self._put(row.queue, row.user, UserUsage(row.use, row.at, row.shares))

    def only(self, queues: Iterable[str]) -> None:
        """Forget the usage in all other queues, because they were deleted. Users whose work still
        runs there are kept.
        """
        for queue in set(self._books) - set(queues):
            for user in [u for u, book in self._books[queue].items() if not book.running]:
                self._forget(queue, user)

    # ---- questions ---------------------------------------------------------------------------

    def users(self, queue: str, now: float) -> Mapping[str, UserShare]:
        """Return the users of a queue with their shares and usage at the time `now`."""
        return {
            user: UserShare(name=user, shares=_shares(book), use=book.used(now, self.terms))
            for user, book in self._books.get(queue, {}).items()
        }

    def specs(self, queue: str) -> tuple[UserShare, ...]:
        """Return the users of a queue for a snapshot. The snapshot lists running work
        separately.
        """
        return tuple(
            UserShare(name=user, shares=_shares(book), use=book.use, at=book.at)
            for user, book in sorted(self._books.get(queue, {}).items())
        )

    def of(self, queue: str) -> Mapping[str, UserUsage]:
        """Return the usage in a queue, by user."""
        return self._books.get(queue, {})

    @property
    def queues(self) -> list[str]:
        """The queues in which there is any usage."""
        return sorted(self._books)

    # ---- users' rows ---------------------------------------------------------------------------

    def _open(self, queue: str, user: str) -> UserUsage:
        book = self._books.get(queue, {}).get(user)
        if book is None:
            if self._count >= MAX_BOOKS:
                self._forget_least()
            book = UserUsage(at=self._wall())
            self._put(queue, user, book)
        return book

    def _put(self, queue: str, user: str, book: UserUsage) -> None:
        self._books.setdefault(queue, {})[user] = book
        self._count += 1

    def _forget_least(self) -> None:
        """Forget a tenth of MAX_BOOKS users, so that this happens seldom. Users with running work
        or with set shares are kept. Those with the least usage among the other users are forgotten.
        """
        now = self._wall()
        idle = [
            (book.used(now, self.terms), queue, user)
            for queue, books in self._books.items()
            for user, book in books.items()
            if not book.running and book.shares is None
        ]
        for _, queue, user in sorted(idle)[: max(MAX_BOOKS // 10, 1)]:
            self._forget(queue, user)

    def _forget(self, queue: str, user: str) -> None:
        del self._books[queue][user]
        self._count -= 1
        if not self._books[queue]:
            del self._books[queue]
        self._keep(TABLE, _key(queue, user), None)

    def _write(self, queue: str, user: str) -> None:
        book = self._books[queue][user]
        row = UsageRow(queue=queue, user=user, use=book.use, at=book.at, shares=book.shares)
        self._keep(TABLE, _key(queue, user), row)


def _shares(book: UserUsage) -> float:
    return 1.0 if book.shares is None else book.shares


def _key(queue: str, user: str) -> bytes:
    return f"{queue}\0{user}".encode()
