"""Chooses which gangs a cycle considers: only the first few of many gangs with equal requests.

If one user has equal gangs in one queue, the earliest gang goes first. If it finds no room, the
later gangs find no room either. So the scheduler sees a later gang only when earlier gangs get
places, and a cycle costs no more when ten thousand gangs wait. The scheduler decides the order
among users, so it must see the first gangs of every user: fewer for each user when there are more
users.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from phalanx.head.gangs.gang import Gang
from phalanx.model.ids import GroupId

WINDOW = 32
"""The number of equal gangs that cycles consider together. This number is divided among the users
of these gangs. Each user gets at least one gang.
"""

_encode = msgspec.msgpack.Encoder(order="sorted").encode
_Kind = tuple[bytes, str]
"""The properties that equal gangs share, and the user of the gangs."""


class CycleWindow:
    """All gangs that are not over. `seen`: the gangs that cycles consider, by group."""

    def __init__(self) -> None:
        self.most = WINDOW
        """The largest number of equal gangs that cycles consider together. The number grows up to
        this limit while all considered gangs find room.

        A shell whose thread has nothing else to do sets a larger number, because more gangs then
        share the fixed cost of a cycle.
        """
        self._sizes: dict[_Kind, int] = {}
        """The number of gangs of each kind that cycles last considered together."""
        self.seen: dict[GroupId, Gang] = {}
        self._behind: dict[_Kind, deque[Gang]] = {}
        self._gone: set[bytes] = set()
        """Gangs that ended before any cycle considered them."""

    def add(self, gang: Gang) -> None:
        """Add a new gang. Cycles consider it from now on if it already holds places."""
        if gang.holds:
            self.seen[gang.gang_id] = gang
            return
        self._behind.setdefault(_kind(gang), deque()).append(gang)

    def remove(self, gang: Gang) -> None:
        """Remove a gang that is over."""
        if self.seen.pop(gang.gang_id, None) is None:
            self._gone.add(gang.gang_id)

    def sees(self, gang: Gang) -> bool:
        """Whether cycles consider the gang."""
        return gang.gang_id in self.seen

    @property
    def is_holding_back(self) -> bool:
        """Whether cycles do not consider some of the gangs yet."""
        return bool(self._behind)

    def next(self, waiting: Iterable[Gang]) -> Iterator[Gang]:
        """Yield the gangs that cycles did not consider before, and consider from now on. `waiting`
        must contain every considered gang that waits.
        """
        if not self._behind:
            return
        shown = Counter(_kind(gang) for gang in waiting if gang.gang_id in self.seen)
        users = Counter(kind for kind, _ in self._behind)
        for kind, behind in list(self._behind.items()):
            last = self._sizes.get(kind, 0)
            whole = WINDOW if shown[kind] or not last else min(2 * last, self.most)
            self._sizes[kind] = whole
            size = max(whole // users[kind[0]], 1)
            while behind and shown[kind] < size:
                gang = behind.popleft()
                if gang.gang_id in self._gone:
                    self._gone.discard(gang.gang_id)
                    continue
                shown[kind] += gang.waits
                self.seen[gang.gang_id] = gang
                yield gang
            if not behind:
                del self._behind[kind], self._sizes[kind]


def _kind(gang: Gang) -> _Kind:
    """Return the properties that make gangs equal. Unless the gang's creator has set these
    properties, they are computed here.
    """
    if not gang.kind:
        first = gang.members[0].need
        alike = all(member.need == first for member in gang.members)
        needs = [first] if alike else [member.need for member in gang.members]
        asked: tuple[Any, ...] = (
            len(gang.members), gang.min_members, needs, gang.selector, gang.topology,
        )  # fmt: skip
        gang.kind = _encode((gang.queue, gang.priority, asked))
    return gang.kind, gang.user
