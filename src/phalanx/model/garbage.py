"""Pauses of the garbage collector. They save time, because each collection walks over all
objects.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


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


@contextmanager
def made_to_stay() -> Iterator[None]:
    """Pause collection while the block runs, and exempt all present objects from later
    collections."""
    with uncollected():
        yield
        gc.freeze()
