"""Holds on the files of large objects, which hang on the owner's references."""

from __future__ import annotations

import gc
from collections import deque
from typing import Any, Protocol


class FileStore(Protocol):
    """Deletes the files of objects that nobody refers to any more."""

    dropped: deque[tuple[str, Any, bool]]
    """(name, extent, whether a reader may have mapped the file) of each released hold."""

    def lend(self, name: str) -> None:
        """Note that an object now belongs to another process, which may give its file back."""
        ...


class FileHold:
    """Hangs on the owner's ObjectRef: when it goes, the object's file may go."""

    __slots__ = ("extent", "lineage", "name", "seen", "size", "store")

    def __init__(self, store: FileStore, name: str, size: int, extent: Any) -> None:
        """`extent`: the file as this process wrote and mapped it; None when another process did."""
        self.lineage: Any = None
        """The maker of the object, or why nothing can make it again (see `owner.objects.lineage`).

        None: the object was put.
        """
        self.store = store
        self.name = name
        self.size = size
        self.extent = extent
        self.seen = False
        """Whether somebody may have mapped the file to read it."""

    def hand_over(self) -> None:
        """Give the object to another process."""
        self.store.lend(self.name)
        self.name = ""

    def __del__(self) -> None:
        # May run at any moment, under any lock, so it only notes the release.
        if self.name:
            self.store.dropped.append((self.name, self.extent, self.seen))


def living_holds() -> list[FileHold]:
    """Return all holds of this process. For listings: it looks at every Python object."""
    return [found for found in gc.get_objects() if type(found) is FileHold and found.name]
