"""Decides which connections may begin their handshake, and which wait for their turn. This module
is pure.

A right proof looks like a wrong one until it is read, and a stranger on this machine has the same
address as the machine's owner. So an address is never refused because handshakes from it failed.
Instead, the cost of strangers is bounded: each address has few handshakes at a time, and addresses
take turns. A handshake that takes long is ended when other connections of its address wait. After a
failed handshake, its place stays taken for a while.
"""

from __future__ import annotations

from collections import deque
from typing import Generic, TypeVar

AT_ONCE = 128
"""The largest number of handshakes at the same time."""
AT_ONCE_OF_ADDRESS = 64
"""The largest number of handshakes of one address at the same time."""
WAITING = 1024
"""The largest number of connections that wait for their turn, over all addresses."""
PATIENCE_S = 1.0
"""Seconds after which a handshake may be ended in favour of connections that wait."""

_One = TypeVar("_One")


class Turns(Generic[_One]):
    """Connections that wait, or whose handshake runs, by address. Times are in seconds of any
    steady clock.
    """

    def __init__(self) -> None:
        self._waiting: dict[str, deque[_One]] = {}
        """The waiting connections, by address. The address with the next turn comes first."""
        self._count = 0
        """The number of connections that wait."""
        self._begun: dict[str, dict[_One, float]] = {}
        """The time when each running handshake began, by address."""
        self._busy = 0
        """The number of handshakes that run."""

    def __len__(self) -> int:
        """Return the number of connections that wait."""
        return self._count

    def arrives(self, address: str, one: _One) -> _One | None:
        """Add a connection that waits. If too many wait, remove and return the connection that has
        waited longest at the address with the most waiting connections.
        """
        self._waiting.setdefault(address, deque()).append(one)
        self._count += 1
        if self._count <= WAITING:
            return None
        return self._take(max(self._waiting, key=lambda name: len(self._waiting[name])), first=True)

    def begins(self, now: float) -> _One | None:
        """Return the connection whose handshake begins next. Return None if no connection waits, or
        if as many handshakes run as are allowed.

        The connection belongs to the address with the fewest running handshakes; addresses with
        equally few take turns. It is the latest connection of this address, because earlier
        connections may be those of strangers that only wait.
        """
        if self._busy >= AT_ONCE:
            return None
        address = min(self._waiting, key=self._at_once, default=None)
        if address is None or self._at_once(address) >= AT_ONCE_OF_ADDRESS:
            return None
        one = self._take(address, first=False)
        if address in self._waiting:
            self._waiting[address] = self._waiting.pop(address)  # this address comes last now
        self._begun.setdefault(address, {})[one] = now
        self._busy += 1
        return one

    def _at_once(self, address: str) -> int:
        return len(self._begun.get(address, ()))

    def over(self, address: str, one: _One) -> None:
        """Note that a handshake has ended."""
        begun = self._begun[address]
        del begun[one]
        self._busy -= 1
        if not begun:
            del self._begun[address]

    def overdue(self, now: float) -> list[_One]:
        """Return the handshakes that must end for others, because they have taken longer than
        PATIENCE_S. There are at most as many as connections wait.

        They belong to addresses that have reached their limit of handshakes. If the limit over all
        addresses is reached, handshakes of the address with the most of them are added.
        """
        if not self._count:
            return []
        late = now - PATIENCE_S
        addresses = [a for a in self._waiting if self._at_once(a) >= AT_ONCE_OF_ADDRESS]
        if self._busy >= AT_ONCE:
            most = max(self._begun, key=self._at_once)
            addresses += [most] if most not in addresses else []
        found: list[_One] = []
        for address in addresses:
            wanted = len(self._waiting.get(address, ())) or self._count
            old = [one for one, since in self._begun[address].items() if since <= late]
            found += old[:wanted]
        return found

    def _take(self, address: str, first: bool) -> _One:
        waiting = self._waiting[address]
        one = waiting.popleft() if first else waiting.pop()
        if not waiting:
            del self._waiting[address]
        self._count -= 1
        return one
