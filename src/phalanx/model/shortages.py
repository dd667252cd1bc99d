"""Errors of the operating system with which any call may fail, because the machine has run out of
something that all its processes share.
"""

from __future__ import annotations

import errno

_SHORTAGES = frozenset({errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE})


def is_shortage(error: OSError) -> bool:
    """Whether an error means that the machine has no processes, memory or descriptors left."""
    return error.errno in _SHORTAGES
