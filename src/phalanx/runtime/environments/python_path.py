"""The directories in which the node's Python looks for modules."""

from __future__ import annotations

import os
import sysconfig
from collections.abc import Iterable


def own_paths(path: Iterable[str]) -> list[str]:
    """Return the directories in `path`, such as sys.path, outside Python's own library."""
    library = {os.path.realpath(sysconfig.get_path(name)) for name in ("stdlib", "platstdlib")}
    found = []
    for one in path:
        real = os.path.realpath(one)
        is_library = real in library or os.path.basename(real) == "lib-dynload"
        if one and os.path.isdir(real) and not is_library and one not in found:
            found.append(one)
    return found
