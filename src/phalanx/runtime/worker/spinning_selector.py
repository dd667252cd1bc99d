"""What an event loop of an actor waits with."""

from __future__ import annotations

import selectors

from phalanx.runtime.os.adaptive_spin import AdaptiveSpin


class SpinningSelector(selectors.EpollSelector):
    """Looks again and again for a moment before it sleeps, where that is likely to be enough."""

    def __init__(self) -> None:
        super().__init__()
        self._spin = AdaptiveSpin()

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """See selectors.BaseSelector."""
        return self._spin.poll(self._look, -1 if timeout is None else max(timeout, 0))

    def _look(self, timeout_s: float) -> list[tuple[selectors.SelectorKey, int]]:
        return super().select(None if timeout_s < 0 else timeout_s)
