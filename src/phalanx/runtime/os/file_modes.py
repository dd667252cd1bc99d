"""The file mode creation mask of Phalanx's own files, and of the work that this process starts."""

from __future__ import annotations

import os

_MASK_OF_DAEMONS = 0o077
"""The file mode mask of daemons. With it, only their own user may read their files."""
_BITS = 0o777
_of_starter: int | None = None


def keep_private() -> None:
    """Make the files that this process creates private to its user.

    The mask with which the process was started is remembered for work whose submitter named no
    mask.
    """
    global _of_starter
    before = os.umask(_MASK_OF_DAEMONS)
    if _of_starter is None:
        _of_starter = before


def mask_of_work(asked: int = -1) -> int:
    """Return the mask for work that was submitted with the mask `asked`.

    If `asked` is below zero, the submitter named no mask, and the work gets the mask with which
    this daemon was started.
    """
    if asked >= 0:
        return asked & _BITS
    return _MASK_OF_DAEMONS if _of_starter is None else _of_starter
