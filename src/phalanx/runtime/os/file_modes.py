"""The file mode creation mask: of Phalanx's own files, and of the work that this process starts."""

from __future__ import annotations

import os

OURS = 0o077
"""The mask of daemons: only their user may read their files."""
_BITS = 0o777
_of_starter: int | None = None


def keep_private() -> None:
    """Make this process's own files private to its user.

    The mask that the process was started with is remembered, for work whose submitter gave none.
    """
    global _of_starter
    before = os.umask(OURS)
    if _of_starter is None:
        _of_starter = before


def mask_of_work(asked: int = -1) -> int:
    """Return the mask for work that was submitted under `asked`.

    Below zero, the submitter gave none, and the mask of this daemon's starter holds.
    """
    if asked >= 0:
        return asked & _BITS
    return OURS if _of_starter is None else _of_starter
