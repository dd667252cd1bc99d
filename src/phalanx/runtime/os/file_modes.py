"""The file mode creation mask: of our own files, and of the work that this process starts."""

from __future__ import annotations

import os

OURS = 0o077
"""Daemons write what only their user may read."""
_BITS = 0o777
_of_starter: int | None = None


def keep_private() -> None:
    """This process's own files are its user's alone. The mask that the process was started with is
    remembered, for work whose submitter named none."""
    global _of_starter
    before = os.umask(OURS)
    if _of_starter is None:
        _of_starter = before


def mask_of_work(asked: int = -1) -> int:
    """The mask for work that was submitted under `asked`; below zero: nobody said, and the mask of
    whoever started this daemon holds."""
    if asked >= 0:
        return asked & _BITS
    return OURS if _of_starter is None else _of_starter
