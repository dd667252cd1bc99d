"""Pins of copies, which stay in memory until their askers have mapped them. Pure.

Without a pin, a copy could be evicted for lack of room between the news that it is here and its
reader's mapping, and again after it was fetched again. So it is pinned until the reader has mapped
it, gives it up, ends, or has had the time that every reader gets.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

MAX_PIN_S = 10.0
"""Seconds for which a copy is pinned until its reader has mapped it. A slower reader must ask
again, because others wait.
"""


class _Pin(NamedTuple):
    size: int
    until: float
    askers: list[bytes]
    """The processes that asked, each listed once for every time that it asked."""


class Pins:
    """The pinned copies, each with the processes for which it is pinned."""

    def __init__(self, released: Callable[[], None]) -> None:
        """`released` is called after copies were unpinned: requests for memory may go on."""
        self._pins: dict[str, _Pin] = {}
        self._released = released
        self.total_bytes = 0

    def __contains__(self, name: object) -> bool:
        return name in self._pins

    def __len__(self) -> int:
        return len(self._pins)

    def add(self, name: str, size: int, asker: bytes, now: float) -> None:
        """Pin a copy of `size` bytes for `asker`. The asker is told that the copy is here, and will
        map it.
        """
        askers = self._pins[name].askers if name in self._pins else []
        if not askers:
            self.total_bytes += size
        self._pins[name] = _Pin(size, now + MAX_PIN_S, [*askers, asker])

    def done(self, name: str, asker: bytes) -> None:
        """Unpin a copy that `asker` has mapped, or does not want any more."""
        pin = self._pins.get(name)
        if pin is None or asker not in pin.askers:
            return
        pin.askers.remove(asker)
        if not pin.askers:
            self.gone(name)

    def gone(self, name: str) -> None:
        """Unpin a copy that may go or has gone."""
        pin = self._pins.pop(name, None)
        if pin is not None:
            self.total_bytes -= pin.size
            self._released()

    def process_gone(self, process: bytes) -> None:
        """Remove the pins of a process that has ended."""
        for name, pin in list(self._pins.items()):
            pin.askers[:] = [asker for asker in pin.askers if asker != process]
            if not pin.askers:
                self.gone(name)

    def tick(self, now: float) -> None:
        """Remove the pins that have lasted long enough."""
        for name, pin in list(self._pins.items()):
            if now >= pin.until:
                self.gone(name)
