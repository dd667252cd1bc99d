"""The queue of objects that are fetched from other nodes. Memory limits how many are fetched at a
time; the others wait. This module is pure.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable
from typing import NamedTuple

from phalanx.objects.pins import Pins

Done = Callable[[str], None]
"""A function that is called when a fetch ends. Its argument is the reason why the fetch failed; ""
if the object is here.
"""


AGAIN_S = 0.2
"""Seconds until a transfer from a node that cannot be reached is tried again."""
GIVE_UP_S = 20.0
"""Seconds for which a fetch from a node that cannot be reached is tried again.

This is a little longer than the head takes to declare a silent node dead (15 s).
"""


class _Wanted(NamedTuple):
    name: str
    size: int


class _Waiter(NamedTuple):
    asker: bytes
    done: Done


class _Unreached(NamedTuple):
    size: int
    again_at: float
    why: str


class PullQueue:
    """The objects wanted from other nodes.

    Each object is listed once, even if several processes ask for it. Objects for which a task waits
    come before objects that nobody needs yet. One transfer may always run. Further transfers begin
    only while all running transfers and all pinned copies together stay below `limit_bytes`.
    """

    def __init__(self, limit_bytes: int, start: Callable[[str, int], None], pins: Pins) -> None:
        """Set up an empty queue. `start(name, size)` begins a transfer; the caller reports its end
        to `ended`.
        """
        self._limit_bytes = limit_bytes
        self._pins = pins
        self._start = start
        self._urgent: OrderedDict[str, _Wanted] = OrderedDict()
        self._ahead: OrderedDict[str, _Wanted] = OrderedDict()
        self._waiters: dict[str, list[_Waiter]] = {}
        self._moving: dict[str, int] = {}
        self._unreached: dict[str, _Unreached] = {}
        self._since: dict[str, float] = {}
        """For each object: the time since which the nodes that have it cannot be reached."""

    @property
    def moving_bytes(self) -> int:
        """The bytes of all transfers in progress."""
        return sum(self._moving.values())

    def want(self, name: str, size: int, asker: bytes, done: Done) -> None:
        """Fetch an object for which `asker` waits. `done` is called at the end."""
        self._waiters.setdefault(name, []).append(_Waiter(asker, done))
        self._unreached.pop(name, None)
        if name not in self._moving:
            self._ahead.pop(name, None)
            self._urgent.setdefault(name, _Wanted(name, size))
        self.proceed()

    def want_ahead(self, name: str, size: int) -> None:
        """Fetch an object before it is needed. No process waits for it yet."""
        if not (name in self._moving or name in self._urgent or name in self._unreached):
            self._ahead.setdefault(name, _Wanted(name, size))
        self.proceed()

    def unwanted(self, name: str, asker: bytes) -> None:
        """Reduce the number of requests of `asker` for this object by one. A transfer for which no
        process waits is not begun.
        """
        waiters = self._waiters.get(name, [])
        for waiter in waiters:
            if waiter.asker == asker:
                waiters.remove(waiter)
                break
        self._forget_if_unwanted(name)

    def process_gone(self, process: bytes) -> None:
        """Drop the waits of a process that has ended."""
        for name, waiters in list(self._waiters.items()):
            waiters[:] = [waiter for waiter in waiters if waiter.asker != process]
            self._forget_if_unwanted(name)

    def _forget_if_unwanted(self, name: str) -> None:
        if not self._waiters.get(name, True):
            del self._waiters[name]
            self._urgent.pop(name, None)
            self._unreached.pop(name, None)
            if name not in self._moving:
                self._since.pop(name, None)

    def proceed(self) -> None:
        """Begin all transfers that may begin now."""
        begun: deque[_Wanted] = deque()
        for queue in (self._urgent, self._ahead):
            while queue:
                wanted = next(iter(queue.values()))
                busy_bytes = self.moving_bytes + self._pins.total_bytes
                if busy_bytes and busy_bytes + wanted.size > self._limit_bytes:
                    break
                del queue[wanted.name]
                self._moving[wanted.name] = wanted.size
                begun.append(wanted)
        for wanted in begun:
            self._start(wanted.name, wanted.size)

    def ended(self, name: str, failure: str) -> None:
        """Handle the end of a transfer. `failure` is empty if the transfer succeeded."""
        if self._moving.pop(name, None) is None:
            return
        self._finish(name, failure)
        self.proceed()

    def unreached(self, name: str, why: str, now: float) -> None:
        """Handle a transfer that failed because the node with the object could not be reached.

        While a process waits, the transfer is tried again for a limited time, because an object
        that is declared lost must be computed again.
        """
        size = self._moving.pop(name, None)
        if size is None:
            return
        since = self._since.setdefault(name, now)
        if name in self._waiters and now - since < GIVE_UP_S:
            self._unreached[name] = _Unreached(size, now + AGAIN_S, why)
        else:
            self._finish(name, why)
        self.proceed()

    def tick(self, now: float) -> None:
        """Begin again those transfers whose nodes could not be reached."""
        for name, entry in list(self._unreached.items()):
            if now >= entry.again_at:
                del self._unreached[name]
                self._urgent[name] = _Wanted(name, entry.size)
        self.proceed()

    def fail_unreached(self, is_dead: Callable[[str], bool]) -> None:
        """Fail those transfers that wait for another attempt although the node with the object is
        dead.
        """
        for name in [n for n in self._unreached if is_dead(n)]:
            self._finish(name, self._unreached.pop(name).why)

    def _finish(self, name: str, failure: str) -> None:
        self._since.pop(name, None)
        for waiter in self._waiters.pop(name, ()):
            waiter.done(failure)
