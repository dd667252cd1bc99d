"""What every user of every queue has used: kept as work begins and ends, and over restarts.

Nothing is sampled. A row is written when work ends; what runs is charged anew by a head that comes
back, from the time for which the row holds.
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
"""Of so many users of queues use is remembered."""
_CHARGED = frozenset({PLACING, HELD})
"""The states in which a member counts as running in scheduling."""

Keep = Callable[[str, bytes, "UsageRow | None"], None]
"""Writes a row down in a table, under its key; None: it is gone."""


class UsageRow(msgspec.Struct, frozen=True, kw_only=True):
    """A user of a queue, as stored: billing units times seconds at the time `at`."""

    queue: str
    user: str
    use: float = 0.0
    at: float = 0.0
    shares: float | None = None


class UsageLedger:
    """All books. Follows the life cycle of members; see LentLedger."""

    def __init__(
        self,
        keep: Keep,
        wall: Callable[[], float],
        config: Configuration,
        shape_of: Callable[[Gang, int], Shape],
    ) -> None:
        """`wall`: seconds since the epoch. `config`: the rules that say what is billed. `shape_of`:
        what a member asks for."""
        self._shape_of = shape_of
        self._keep = keep
        self._wall = wall
        self.terms = terms_in(config)
        self._books: dict[str, dict[str, UserUsage]] = {}
        """By queue and user."""
        self._charged: dict[Key, tuple[str, str]] = {}
        """The queue and the user that pay for a member."""
        self._count = 0

    def rules_changed(self, config: Configuration) -> None:
        """What is billed from now on may be something else; what was billed stays as it is."""
        self.terms = terms_in(config)

    # ---- what happens ------------------------------------------------------------------------

    def members_moved(self, gang: Gang, move: Move) -> None:
        """See Follower."""
        now, ended = self._wall(), set()
        for index in move.indexes:
            key = gang.group, index
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
        """A gang is known again, with what runs of it."""
        now = self._wall()
        for index, member in enumerate(gang.members):
            if member.state in _CHARGED:
                self._begin(gang, index, member.started if member.started is not None else now, now)

    def _begin(self, gang: Gang, index: int, began: float, now: float) -> None:
        key = gang.group, index
        rate = self.terms.rate(self._shape_of(gang, index).request)
        self._charged[key] = gang.queue, gang.user
        self._open(gang.queue, gang.user).begin(key, Running(began, rate), now, self.terms)

    def clock_stepped(self, step_s: float) -> None:
        """The time of day was stepped by so much: nothing is billed or forgotten for that."""
        for queue, books in self._books.items():
            for user, book in books.items():
                book.clock_stepped(step_s)
                self._write(queue, user)

    def set_shares(self, queue: str, user: str, shares: float | None) -> None:
        """They have so many from now on; None: one, as if nobody had said."""
        book = self._open(queue, user)
        book.shares = shares
        self._write(queue, user)

    def load(self, rows: Iterable[UsageRow]) -> None:
        """Know them again."""
        for row in rows:
            self._put(row.queue, row.user, UserUsage(row.use, row.at, row.shares))

    def only(self, queues: Iterable[str]) -> None:
        """There are these queues, and no others: the books of those that were deleted go."""
        for queue in set(self._books) - set(queues):
            for user in [u for u, book in self._books[queue].items() if not book.running]:
                self._forget(queue, user)

    # ---- questions ---------------------------------------------------------------------------

    def users(self, queue: str, now: float) -> Mapping[str, UserShare]:
        """See LentLedger."""
        return {
            user: UserShare(name=user, shares=_shares(book), use=book.used(now, self.terms))
            for user, book in self._books.get(queue, {}).items()
        }

    def specs(self, queue: str) -> tuple[UserShare, ...]:
        """The same for a snapshot, which tells of what runs by itself."""
        return tuple(
            UserShare(name=user, shares=_shares(book), use=book.use, at=book.at)
            for user, book in sorted(self._books.get(queue, {}).items())
        )

    def of(self, queue: str) -> Mapping[str, UserUsage]:
        """The books of a queue, by user."""
        return self._books.get(queue, {})

    @property
    def queues(self) -> list[str]:
        """Those with any book."""
        return sorted(self._books)

    # ---- the books ---------------------------------------------------------------------------

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
        """A tenth of the books, those with least use of which nothing runs and no shares are set:
        so that this is seldom done."""
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
