"""The machine's clock and randomness, as every engine hands them to machines that know neither."""

from __future__ import annotations

import contextlib
import random
import secrets
import sys
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
    with contextlib.suppress(OSError):
        traceback.print_exception(error)


def say(text: str) -> None:
    """Something that a person who reads the process's log wants to know. A log on a full disk, or
    one that nobody reads any more, must not end the process."""
    with contextlib.suppress(OSError):
        print(f"phalanx: {text}", file=sys.stderr, flush=True)
