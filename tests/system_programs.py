"""Programs of the system that some tests need."""

from __future__ import annotations

import os
import shutil

_ALSO = ("/usr/local/sbin", "/usr/sbin", "/sbin")
"""Directories that contain `ip`, `tc` and similar programs. The PATH of an ordinary user often
lacks them.
"""


def find_tool(name: str) -> str | None:
    """Return the path of a program; None if the machine does not have it."""
    return shutil.which(name, path=os.pathsep.join([os.environ.get("PATH", ""), *_ALSO]))
