"""The current directory of a program, and the directory in which its jobs run by default."""

from __future__ import annotations

import os

from phalanx.errors import CurrentDirectoryError
from phalanx.runtime.daemons import logins


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


def default_directory(address: str | None = None) -> str:
    """Return the directory for a job that names none: the current directory of this process.

    If the head is reached with a login, the result is "": each member then gets a directory of its
    own, because the nodes do not have the directories of this machine. `address`: the address of
    the head; by default PHALANX_ADDRESS, or the current login.
    """
    if logins.chosen(address or os.environ.get("PHALANX_ADDRESS")) is not None:
        return ""
    return current_directory()
