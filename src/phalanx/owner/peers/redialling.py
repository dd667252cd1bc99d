"""Decides when processes that cannot be reached are dialled again, and for how long.

A connection that has ended, or could not be made, does not mean that the process is dead. But if an
owner is declared dead, its objects are lost. So readers of its objects dial it again until the head
reports that its node is dead, or for as long as such a report may take. An owner does the same for
borrowers of its objects that it can no longer reach.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from phalanx.protocol.messages import Message

DIAL_AGAIN_S = 0.2
"""Seconds between two attempts to reach a process."""
GIVE_UP_S = 20.0
"""Seconds after which a process that cannot be reached counts as dead. By its own limits, the head
takes a little less time to find a node dead (15 s).
"""
BORROWER_DIALS_S = 2.0
"""Seconds for which an owner waits until its borrowers dial, before it dials them itself."""


class _Unreached(msgspec.Struct):
    give_up_at: float
    unsent: list[Message] = []
    dial_at: float | None = None
    """The time of the next attempt; None while a connection is being made."""
    reason: str = ""


class Redialling:
    """Processes of other nodes to which there is no connection, and the messages for them."""

    def __init__(
        self,
        dial: Callable[[bytes], Any],
        is_reached: Callable[[bytes], bool],
        give_up: Callable[[bytes, str], None],
    ) -> None:
        """`dial` makes a connection. `is_reached`: whether a connection exists. `give_up(process,
        reason)` is called for each process that now counts as dead.
        """
        self._dial = dial
        self._is_reached = is_reached
        self._give_up = give_up
        self._unreached: dict[bytes, _Unreached] = {}

    def __len__(self) -> int:
        return len(self._unreached)

    def refused(self, process: bytes, unsent: Iterable[Message], reason: str, now: float) -> None:
        """Note that a connection could not be made. The messages `unsent` wait for the next
        connection.
        """
        entry = self._unreached.setdefault(process, _Unreached(now + GIVE_UP_S))
        entry.unsent.extend(unsent)
        entry.reason = reason
        entry.dial_at = now + DIAL_AGAIN_S

    def ended(self, process: bytes, dial_at: float) -> None:
        """Note that an established connection has ended.

        The process is dialled at the time `dial_at`, unless it dials this process before.
        """
        entry = self._unreached.setdefault(process, _Unreached(dial_at + GIVE_UP_S))
        entry.dial_at = dial_at

    def unsent(self, process: bytes) -> list[Message]:
        """Remove and return the messages that must be sent first over a new connection. The
        connection may not be established yet. Until its outcome is known, the process is not
        dialled again.
        """
        entry = self._unreached.get(process)
        if entry is None:
            return []
        unsent, entry.unsent, entry.dial_at = entry.unsent, [], None
        return unsent

    def forget(self, process: bytes) -> None:
        """Forget a process that is known to be dead."""
        self._unreached.pop(process, None)

    def node_died(self, prefix: bytes) -> None:
        """Give up all processes of a dead node."""
        for process in [p for p in self._unreached if p.startswith(prefix)]:
            del self._unreached[process]
            self._give_up(process, "")

    def tick(self, now: float) -> None:
        """Dial again the processes that are due. Those that could not be reached for too long count
        as dead.
        """
        for process, entry in list(self._unreached.items()):
            if entry.dial_at is None:
                if self._is_reached(process):
                    del self._unreached[process]
            elif now >= entry.give_up_at:
                del self._unreached[process]
                self._give_up(process, entry.reason)
            elif now >= entry.dial_at:
                self._dial(process)
