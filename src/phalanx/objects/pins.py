"""Copies that stay in memory until those who asked for them have mapped them. Pure.

A copy could be dropped for want of room between the news that it is here and its reader's mapping,
and again when it was fetched again. So it is pinned until the reader says that it has mapped it or
gives up, ends, or has had the time that anybody gets.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

MAX_PIN_S = 10.0
"""Who has not mapped a copy by then asks for it again: it may be stopped, and others wait."""


class _Pin(NamedTuple):
    size: int
    until: float
    askers: list[bytes]
    """A process once for each time that it asked."""


class Pins:
    """Which copies are pinned, and for whom."""

    def __init__(self, released: Callable[[], None]) -> None:
        """`released` is called after some were let go: who waits for memory may go on."""
        self._pins: dict[str, _Pin] = {}
        self._released = released
        self.total_bytes = 0

    def __contains__(self, name: object) -> bool:
        return name in self._pins

    def __len__(self) -> int:
        return len(self._pins)

    def add(self, name: str, size: int, asker: bytes, now: float) -> None:
        """`asker` is told that this copy of `size` bytes is here, and will map it."""
        askers = self._pins[name].askers if name in self._pins else []
        if not askers:
            self.total_bytes += size
        self._pins[name] = _Pin(size, now + MAX_PIN_S, [*askers, asker])

    def done(self, name: str, asker: bytes) -> None:
        """`asker` has mapped it, or does not want it any more."""
        pin = self._pins.get(name)
        if pin is None or asker not in pin.askers:
            return
        pin.askers.remove(asker)
        if not pin.askers:
            self.gone(name)

    def gone(self, name: str) -> None:
        """The copy may go, or has gone."""
        pin = self._pins.pop(name, None)
        if pin is not None:
            self.total_bytes -= pin.size
            self._released()

    def process_gone(self, process: bytes) -> None:
        """A process ended: it maps nothing any more."""
        for name, pin in list(self._pins.items()):
            pin.askers[:] = [asker for asker in pin.askers if asker != process]
            if not pin.askers:
                self.gone(name)

    def tick(self, now: float) -> None:
        """Time has passed."""
        for name, pin in list(self._pins.items()):
            if now >= pin.until:
                self.gone(name)
