"""Where a program stands."""

from __future__ import annotations

import os

from phalanx.errors import CurrentDirectoryError


def current_directory() -> str:
    """The directory in which this process runs. Raises CurrentDirectoryError where that was
    removed: what is to run there could not."""
    try:
        return os.getcwd()
    except FileNotFoundError:
        raise CurrentDirectoryError(
            "The current directory was removed. Change to one that is there, and try again."
        ) from None
