"""Chooses which gangs a cycle looks at: of many with equal requests, the first few.

Of equal gangs of one user in one queue, the one that came first goes first; if it finds no room,
the others find none either. So the scheduler sees the gangs behind only as those before them get
places, and a cycle costs no more when ten thousand gangs wait. The scheduler decides the order
among users, so it sees the first gangs of each user, fewer when there are more users.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from phalanx.head.gangs.gang import Gang
from phalanx.model.ids import GroupId

WINDOW = 32
"""The number of equal gangs that cycles look at together. It is shared among the users of these
gangs, with at least one gang for each user.
"""

_encode = msgspec.msgpack.Encoder(order="sorted").encode
_Kind = tuple[bytes, str]
"""The terms that equal gangs have in common, and the user of the gangs."""


class CycleWindow:
    """All gangs that are not over. `seen`: the gangs that cycles look at, by group."""

    def __init__(self) -> None:
        self.most = WINDOW
        """The largest number of equal gangs that cycles look at together after all earlier ones
        found room.

        A shell whose thread has nothing else to do sets a larger number, because more gangs then
        share the fixed cost of a cycle.
        """
        self._sizes: dict[_Kind, int] = {}
        """The number of gangs of each kind that were last looked at together."""
        self.seen: dict[GroupId, Gang] = {}
        self._behind: dict[_Kind, deque[Gang]] = {}
        self._gone: set[bytes] = set()
        """Gangs that ended while cycles did not look at them yet."""

    def add(self, gang: Gang) -> None:
        """Add a new gang; a gang that holds places already is seen at once."""
        if gang.holds:
            self.seen[gang.gang_id] = gang
            return
        self._behind.setdefault(_kind(gang), deque()).append(gang)

    def remove(self, gang: Gang) -> None:
        """Remove a gang that is over."""
        if self.seen.pop(gang.gang_id, None) is None:
            self._gone.add(gang.gang_id)

    def sees(self, gang: Gang) -> bool:
        """Whether cycles look at a gang."""
        return gang.gang_id in self.seen

    @property
    def is_holding_back(self) -> bool:
        """Whether cycles do not look at some of the gangs yet."""
        return bool(self._behind)

    def next(self, waiting: Iterable[Gang]) -> Iterator[Gang]:
        """Yield the gangs to be seen from now on. `waiting`: at least the seen gangs that wait."""
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
    """Return the terms that equal gangs have in common. They are computed here unless the gang's
    creator set them.
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
