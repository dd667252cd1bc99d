"""Speeds up the start of commands, because a command runs briefly and sends only one request."""

from __future__ import annotations

import gc
import sys

_OBJECTS_BEFORE_COLLECTING = 100_000
"""The number of new objects after which garbage is collected. With Python's default of 700, some
twenty collections run during a command's imports and find nothing.
"""


def hasten() -> None:
    """Speed up this process's imports. A command calls this once, before it imports msgspec."""
    gc.set_threshold(_OBJECTS_BEFORE_COLLECTING)
    _import_msgspec()


def _import_msgspec() -> None:
    """Import msgspec without `typing_extensions`.

    msgspec takes two functions from that package if it is installed, and otherwise from `typing`,
    which has had them since Python 3.11. Importing the package takes longer than importing msgspec.
    """
    name = "typing_extensions"
    if name in sys.modules:
        return
    sys.modules[name] = None  # type: ignore[assignment]  # an import of it now fails
    try:
        import msgspec  # noqa: F401
    finally:
        del sys.modules[name]
