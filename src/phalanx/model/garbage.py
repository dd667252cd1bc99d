"""When nobody looks for garbage in circles: each look is a pass over all objects that there are."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def uncollected() -> Iterator[None]:
    """What is made within it is no such garbage, or little of it."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


@contextmanager
def made_to_stay() -> Iterator[None]:
    """What is made within it stays: later looks pass over it, too, and over all that was there."""
    with uncollected():
        yield
        gc.freeze()
