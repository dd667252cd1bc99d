"""The current directory of a program."""

from __future__ import annotations

import os

from phalanx.errors import CurrentDirectoryError


def current_directory() -> str:
    """Return the current directory of this process.

    Raises CurrentDirectoryError when the directory was removed: commands could not run there.
    """
    try:
        return os.getcwd()
    except FileNotFoundError:
        raise CurrentDirectoryError(
            "The current directory was removed. Change to a directory that exists, and try again."
        ) from None
