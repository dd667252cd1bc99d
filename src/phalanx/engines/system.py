"""The machine's clock and randomness, as every engine hands them to machines that know neither."""

from __future__ import annotations

import random
import secrets
import time
import traceback


class SystemClock:
    """See `phalanx.head.clock.Clock`."""

    def now(self) -> float:
        """See Clock."""
        return time.monotonic()

    def wall(self) -> float:
        """See Clock."""
        return time.time()


def unforeseeable() -> random.Random:
    """A source of randomness that nobody foresees."""
    return random.Random(secrets.randbits(64))


def print_defect(error: Exception) -> None:
    """Show an error of ours that must not end the process."""
    traceback.print_exception(error)
