"""Whose account a process runs in, by name."""

from __future__ import annotations

import getpass


def user_name() -> str:
    """By this process's account; "" where the machine knows no name for it."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return ""
