"""Programs of the system that some tests need."""

from __future__ import annotations

import os
import shutil

_ALSO = ("/usr/local/sbin", "/usr/sbin", "/sbin")
"""Where `ip`, `tc` and the like lie. The PATH of an ordinary user often leaves these out."""


def find_tool(name: str) -> str | None:
    """The path of a program; None where the machine does not have it."""
    return shutil.which(name, path=os.pathsep.join([os.environ.get("PATH", ""), *_ALSO]))
