"""Sets the number of threads of numeric libraries that the fork server loaded before it forked
workers.

Such a library has read its variables already. A library that a worker loads itself reads
OMP_NUM_THREADS then.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

_SETTERS = tuple(
    f"{prefix}openblas_set_num_threads{suffix}"
    for prefix in ("scipy_", "")
    for suffix in ("64_", "", "_64_")
)
"""The names that the function has in builds of OpenBLAS. The first is that in numpy's wheels."""


class BlasThreads:
    """The functions that set the number of threads of the libraries that were loaded before this
    process was forked.
    """

    def __init__(self) -> None:
        self._setters: list[Callable[[int], object]] = []
        self._count = 1

    def prepare(self) -> None:
        """Find the loaded libraries, and set each to one thread. The fork server calls this
        method.
        """
        if "numpy" in sys.modules:
            self._setters = _loaded()
            self._set(1)

    def limit(self, count: int) -> None:
        """Use this number of threads from now on."""
        if count != self._count:
            self._set(count)

    def _set(self, count: int) -> None:
        self._count = count
        for set_threads in self._setters:
            set_threads(count)


inherited = BlasThreads()
"""The libraries that were loaded before the first fork. Each worker has its own copy of this
object.
"""


def _loaded() -> list[Callable[[int], object]]:
    """Return the function that sets the threads of each OpenBLAS in this process."""
    # not imported at the top, because few parents of workers have loaded such a library
    import ctypes

    try:
        with open("/proc/self/maps") as maps:
            paths = {line.split(maxsplit=5)[-1].rstrip("\n") for line in maps if "blas" in line}
    except OSError:
        return []
    found: list[Callable[[int], object]] = []
    for path in paths:
        try:
            library = ctypes.CDLL(path, mode=os.RTLD_NOLOAD | os.RTLD_LAZY)
        except OSError:
            continue
        setter = next((name for name in _SETTERS if hasattr(library, name)), None)
        if setter is not None:
            function = getattr(library, setter)
            function.argtypes = [ctypes.c_int]
            found.append(function)
    return found
