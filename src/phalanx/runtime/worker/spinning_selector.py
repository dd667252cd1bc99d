"""The selector of an actor's event loop."""

from __future__ import annotations

import selectors

from phalanx.runtime.os.adaptive_spin import AdaptiveSpin


class SpinningSelector(selectors.EpollSelector):
    """A selector that looks for events repeatedly for a moment before it sleeps, if events will
    probably come in that moment.
    """

    def __init__(self) -> None:
        super().__init__()
        self._spin = AdaptiveSpin()

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Wait for events, for at most `timeout` seconds (None for no limit)."""
        return self._spin.poll(self._look, -1 if timeout is None else max(timeout, 0))

    def _look(self, timeout_s: float) -> list[tuple[selectors.SelectorKey, int]]:
        return super().select(None if timeout_s < 0 else timeout_s)
