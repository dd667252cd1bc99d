"""The pool of files of dropped copies. Later copies overwrite these files, because their pages
exist already.

To allocate a page of shared memory takes several times as long as to receive its bytes. The size of
the pool is limited, and its files are deleted first when memory is needed for anything else. This
module is pure.
"""

from __future__ import annotations

MIN_BYTES = 1 << 20
"""The smallest size of a pooled file in bytes. New pages for a smaller file cost less than the
pool.
"""
MAX_FILES = 32
"""The largest number of files in the pool."""
MAX_BYTES = 1 << 30
"""The largest size of the pool in bytes."""
_SLACK_BYTES = 64 << 10


class FilePool:
    """The pooled files by name, oldest first."""

    def __init__(self, capacity_bytes: int) -> None:
        """Set up an empty pool. `capacity_bytes`: the capacity of the whole object store, of which
        the pool may have an eighth.
        """
        self._most_bytes = min(MAX_BYTES, capacity_bytes // 8)
        self._sizes: dict[str, int] = {}
        self.total_bytes = 0

    def put(self, name: str, size: int) -> list[str]:
        """Keep a file. Returns the files to delete: older ones, or the file itself if it is too
        large or too small.
        """
        self._remove(name)  # an earlier copy of the same object, which this copy replaces
        if not MIN_BYTES <= size <= self._most_bytes:
            return [name]
        gone = []
        while len(self._sizes) >= MAX_FILES or self.total_bytes + size > self._most_bytes:
            oldest = next(iter(self._sizes))
            self._remove(oldest)
            gone.append(oldest)
        self._sizes[name] = size
        self.total_bytes += size
        return gone

    def take(self, size: int) -> str:
        """Remove and return the smallest file that has this number of bytes, and of which at most
        half would be wasted; "" if there is no such file.
        """
        fits = [
            (held, name)
            for name, held in self._sizes.items()
            if size <= held <= max(2 * size, size + _SLACK_BYTES)
        ]
        if not fits:
            return ""
        name = min(fits)[1]
        self._remove(name)
        return name

    def free(self, needed_bytes: int) -> list[str]:
        """Remove and return the oldest files, as many as are needed to free this many bytes."""
        gone, freed = [], 0
        for name, held in list(self._sizes.items()):
            if freed >= needed_bytes:
                break
            self._remove(name)
            gone.append(name)
            freed += held
        return gone

    def _remove(self, name: str) -> None:
        self.total_bytes -= self._sizes.pop(name, 0)
