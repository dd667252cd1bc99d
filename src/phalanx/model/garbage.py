"""Pauses of the garbage collector. They save time, because each collection walks over all
objects.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

_OBJECTS_BEFORE_COLLECTING = 50_000
"""The number of new objects after which a daemon collects. Python's default is 700 or 2,000."""


@contextmanager
def uncollected() -> Iterator[None]:
    """Pause collection while the block runs; the block should make little or no cyclic garbage."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def collect_rarely() -> None:
    """Collect garbage more rarely from now on, and exempt all present objects. For daemons: nearly
    all objects that a daemon makes are freed without the collector. While a burst of requests is in
    memory, each collection would walk over all of them again.
    """
    gc.freeze()
    gc.set_threshold(_OBJECTS_BEFORE_COLLECTING)
    gc.enable()
