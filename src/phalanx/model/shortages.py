"""The errors of the operating system by which any call reports that the machine has run out of
something that all its processes share.
"""

from __future__ import annotations

import errno

_SHORTAGES = frozenset({errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE})


def is_shortage(error: OSError) -> bool:
    """Whether an error means that processes, memory or descriptors have run out."""
    return error.errno in _SHORTAGES
