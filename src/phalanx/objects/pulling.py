"""Which objects of other nodes are fetched now, and which wait: as many as memory holds. Pure."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable
from typing import NamedTuple

Done = Callable[[str], None]
"""Called with why it failed, or "" once the object is here."""


class _Wanted(NamedTuple):
    name: str
    size: int


class PullQueue:
    """Objects wanted from other nodes: each once, however many ask for it.

    Those that a task waits for go before those that are fetched ahead. One is always admitted;
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

    @property
    def moving_bytes(self) -> int:
        """Bytes of all transfers under way."""
        return sum(self._moving.values())

    def want(self, name: str, size: int, done: Done | None) -> None:
        """Fetch an object; `done` None: ahead of its use, nobody waits for it yet."""
        if done is not None:
            self._waiters.setdefault(name, []).append(done)
        if name not in self._moving:
            if done is not None:
                self._ahead.pop(name, None)
                self._urgent.setdefault(name, _Wanted(name, size))
            elif name not in self._urgent:
                self._ahead.setdefault(name, _Wanted(name, size))
        self.admit()

    def admit(self) -> None:
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
        for done in self._waiters.pop(name, ()):
            done(failure)
        self.admit()
