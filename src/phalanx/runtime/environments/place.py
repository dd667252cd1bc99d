"""The directory of this account's environments for this Python."""

from __future__ import annotations

import os
import sys
import zlib


def environments_directory() -> str:
    """Return the directory of environments; it may not exist yet.

    The name of the directory contains the Python version, because each Python needs its own
    environments.
    """
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    python = f"{sys.version} {sys.executable} {sys.prefix} {sys.base_prefix}"
    tag = f"{sys.implementation.cache_tag}-{os.uname().machine}-{zlib.crc32(python.encode()):08x}"
    return os.path.join(cache, "phalanx", "environments", tag)
