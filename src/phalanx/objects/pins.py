"""Pins of copies, which stay in memory until their askers have mapped them. This module is pure.

Without a pin, a full store could evict an arrived copy before the copy's reader has mapped it. This
could happen again after every new fetch. So a copy is pinned until its reader has mapped it, no
longer wants it, or ends, but at most for `MAX_PIN_S`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

MAX_PIN_S = 10.0
"""The largest number of seconds for which a copy is pinned. A reader that takes longer to map it
must ask again, because other readers wait for memory.
"""


class _Pin(NamedTuple):
    size: int
    until: float
    askers: list[bytes]
    """The processes that asked, each listed once for every time that it asked."""


class Pins:
    """The pinned copies, each with the processes for which it is pinned."""

    def __init__(self, released: Callable[[], None]) -> None:
        """Set up the table. `released` is called after copies were unpinned, because requests for
        memory may then go on.
        """
        self._pins: dict[str, _Pin] = {}
        self._released = released
        self.total_bytes = 0

    def __contains__(self, name: object) -> bool:
        return name in self._pins

    def __len__(self) -> int:
        return len(self._pins)

    def add(self, name: str, size: int, asker: bytes, now: float) -> None:
        """Pin a copy of `size` bytes for `asker`. The asker gets a message that the copy is here,
        and will map it.
        """
        askers = self._pins[name].askers if name in self._pins else []
        if not askers:
            self.total_bytes += size
        self._pins[name] = _Pin(size, now + MAX_PIN_S, [*askers, asker])

    def done(self, name: str, asker: bytes) -> None:
        """Unpin a copy that `asker` has mapped or no longer wants."""
        pin = self._pins.get(name)
        if pin is None or asker not in pin.askers:
            return
        pin.askers.remove(asker)
        if not pin.askers:
            self.unpin(name)

    def unpin(self, name: str) -> None:
        """Unpin a copy that may be deleted, or that is deleted."""
        pin = self._pins.pop(name, None)
        if pin is not None:
            self.total_bytes -= pin.size
            self._released()

    def process_gone(self, process: bytes) -> None:
        """Remove the pins of a process that has ended."""
        for name, pin in list(self._pins.items()):
            pin.askers[:] = [asker for asker in pin.askers if asker != process]
            if not pin.askers:
                self.unpin(name)

    def tick(self, now: float) -> None:
        """Remove the pins that have lasted for `MAX_PIN_S`."""
        for name, pin in list(self._pins.items()):
            if now >= pin.until:
                self.unpin(name)
