"""Which gangs a cycle looks at: of many that ask for the same, the first few.

Of equal gangs of one user in one queue the one that came first goes first, and where it finds no
room the others find none. So those behind are shown to the scheduler only as those before them get
places, and a cycle costs no more when ten thousand wait. Who of several users is next is for the
scheduler to say: it sees the first ones of each, fewer the more users there are.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from phalanx.head.gangs.gang import Gang

WINDOW = 32
"""So many equal gangs are looked at together, or one of each user."""

_encode = msgspec.msgpack.Encoder(order="sorted").encode
_Kind = tuple[bytes, str]
"""What gangs have in common, and their user."""


class CycleWindow:
    """All gangs that are not over. `seen`: those that cycles look at, by group."""

    def __init__(self) -> None:
        self.most = WINDOW
        """So many are looked at together when all before them found room; a shell whose thread has
        nothing else to do sets more, as what a cycle costs whatever it decides is shared then."""
        self._sizes: dict[_Kind, int] = {}
        """How many of a kind were looked at together last."""
        self.seen: dict[bytes, Gang] = {}
        self._behind: dict[_Kind, deque[Gang]] = {}
        self._gone: set[bytes] = set()
        """Gangs that ended while they were behind."""

    def add(self, gang: Gang) -> None:
        """A gang has come; one that holds places already is seen at once."""
        if gang.holds:
            self.seen[gang.group] = gang
            return
        self._behind.setdefault(_kind(gang), deque()).append(gang)

    def remove(self, gang: Gang) -> None:
        """It is over."""
        if self.seen.pop(gang.group, None) is None:
            self._gone.add(gang.group)

    def sees(self, gang: Gang) -> bool:
        """Whether cycles look at it."""
        return gang.group in self.seen

    @property
    def is_holding_back(self) -> bool:
        """Whether some are not shown yet."""
        return bool(self._behind)

    def next(self, waiting: Iterable[Gang]) -> Iterator[Gang]:
        """Those that are to be seen from now on; `waiting`: at least those seen that wait."""
        if not self._behind:
            return
        shown = Counter(_kind(gang) for gang in waiting if gang.group in self.seen)
        users = Counter(kind for kind, _ in self._behind)
        for kind, behind in list(self._behind.items()):
            last = self._sizes.get(kind, 0)
            whole = WINDOW if shown[kind] or not last else min(2 * last, self.most)
            self._sizes[kind] = whole
            size = max(whole // users[kind[0]], 1)
            while behind and shown[kind] < size:
                gang = behind.popleft()
                if gang.group in self._gone:
                    self._gone.discard(gang.group)
                    continue
                shown[kind] += gang.waits
                self.seen[gang.group] = gang
                yield gang
            if not behind:
                del self._behind[kind], self._sizes[kind]


def _kind(gang: Gang) -> _Kind:
    """What equal gangs have in common: worked out here, unless who made the gang knows better."""
    if not gang.kind:
        first = gang.members[0].need
        alike = all(member.need == first for member in gang.members)
        needs = [first] if alike else [member.need for member in gang.members]
        asked: tuple[Any, ...] = (
            len(gang.members), gang.min_members, needs, gang.selector, gang.topology,
        )  # fmt: skip
        gang.kind = _encode((gang.queue, gang.priority, asked))
    return gang.kind, gang.user
