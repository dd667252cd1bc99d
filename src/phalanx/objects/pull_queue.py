"""Which objects of other nodes are fetched now, and which wait: as many as memory holds. Pure."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable
from typing import NamedTuple

Done = Callable[[str], None]
"""Called with why it failed, or "" once the object is here."""


AGAIN_S = 0.2
GIVE_UP_S = 20.0
"""How long a node is tried again that cannot be reached: a little more than the control store
takes, by its own limits, to find it dead (15 s)."""


class _Wanted(NamedTuple):
    name: str
    size: int


class _Unreached(NamedTuple):
    size: int
    again_at: float
    why: str


class PullQueue:
    """Objects wanted from other nodes: each once, however many ask for it.

    Those that a task waits for go before those that are fetched ahead. One is always begun;
    more only while all that are on their way together stay under `limit_bytes`.
    """

    def __init__(self, limit_bytes: int, start: Callable[[str, int], None]) -> None:
        """`start(name, size)` begins a transfer; `ended` follows."""
        self._limit_bytes = limit_bytes
        self._start = start
        self._urgent: OrderedDict[str, _Wanted] = OrderedDict()
        self._ahead: OrderedDict[str, _Wanted] = OrderedDict()
        self._waiters: dict[str, list[Done]] = {}
        self._moving: dict[str, int] = {}
        self._unreached: dict[str, _Unreached] = {}
        self._since: dict[str, float] = {}
        """When nodes that have these objects were found out of reach."""

    @property
    def moving_bytes(self) -> int:
        """Bytes of all transfers under way."""
        return sum(self._moving.values())

    def want(self, name: str, size: int, done: Done | None) -> None:
        """Fetch an object; `done` None: ahead of its use, nobody waits for it yet."""
        if done is not None:
            self._waiters.setdefault(name, []).append(done)
        self._unreached.pop(name, None)
        if name not in self._moving:
            if done is not None:
                self._ahead.pop(name, None)
                self._urgent.setdefault(name, _Wanted(name, size))
            elif name not in self._urgent:
                self._ahead.setdefault(name, _Wanted(name, size))
        self._start_next()

    def _start_next(self) -> None:
        """Begin what may begin."""
        begun: deque[_Wanted] = deque()
        for queue in (self._urgent, self._ahead):
            while queue:
                wanted = next(iter(queue.values()))
                if self._moving and self.moving_bytes + wanted.size > self._limit_bytes:
                    break
                del queue[wanted.name]
                self._moving[wanted.name] = wanted.size
                begun.append(wanted)
        for wanted in begun:
            self._start(wanted.name, wanted.size)

    def ended(self, name: str, failure: str) -> None:
        """A transfer ended: well when `failure` is empty."""
        if self._moving.pop(name, None) is None:
            return
        self._finish(name, failure)
        self._start_next()

    def unreached(self, name: str, why: str, now: float) -> None:
        """A transfer ended because the node that has the object could not be reached: it is tried
        again while somebody waits, and for so long. Else the object would be taken for lost."""
        size = self._moving.pop(name, None)
        if size is None:
            return
        since = self._since.setdefault(name, now)
        if name in self._waiters and now - since < GIVE_UP_S:
            self._unreached[name] = _Unreached(size, now + AGAIN_S, why)
        else:
            self._finish(name, why)
        self._start_next()

    def tick(self, now: float) -> None:
        """Time has passed: try again what could not be reached."""
        for name, entry in list(self._unreached.items()):
            if now >= entry.again_at:
                del self._unreached[name]
                self._urgent[name] = _Wanted(name, entry.size)
        self._start_next()

    def gone(self, is_gone: Callable[[str], bool]) -> None:
        """A node died: what is left to try again and was there does not come."""
        for name in [n for n in self._unreached if is_gone(n)]:
            self._finish(name, self._unreached.pop(name).why)

    def _finish(self, name: str, failure: str) -> None:
        self._since.pop(name, None)
        for done in self._waiters.pop(name, ()):
            done(failure)
