"""Errors of the system that mean that a machine has run out of something that all its processes
share, whatever was to be done."""

from __future__ import annotations

import errno

_SHORTAGES = frozenset({errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE})


def is_shortage(error: OSError) -> bool:
    """Whether processes, memory or descriptors had run out."""
    return error.errno in _SHORTAGES
