"""Holds on the files of large objects. An owner's reference has a hold, which keeps the file."""

from __future__ import annotations

import gc
from collections import deque
from typing import Any, Protocol


class FileStore(Protocol):
    """The store of files, which deletes the file of an object when its last hold is gone."""

    dropped: deque[tuple[str, Any, bool]]
    """For each hold that was released: (name, extent, whether a reader may have mapped the
    file).
    """

    def lend(self, name: str) -> None:
        """Note that an object now belongs to another process, which may give the file back
        later.
        """
        ...


class FileHold:
    """A hold on an object's file. The owner's ObjectRef has it, and the file may be deleted when
    the hold is gone.
    """

    __slots__ = ("extent", "lineage", "name", "seen", "size", "store")

    def __init__(self, store: FileStore, name: str, size: int, extent: Any) -> None:
        """Hold a file. `extent`: the file as this process wrote and mapped it; None if another
        process wrote the file.
        """
        self.lineage: Any = None
        """The maker of the object, or the reason why the object cannot be made again (see
        `owner.objects.lineage`).

        None if the object was put.
        """
        self.store = store
        self.name = name
        self.size = size
        self.extent = extent
        self.seen = False
        """Whether a process may have mapped the file to read it."""

    def hand_over(self) -> None:
        """Give the object to another process."""
        self.store.lend(self.name)
        self.name = ""

    def __del__(self) -> None:
        # This may run at any time, while any lock is held, so it only records the release.
        if self.name:
            self.store.dropped.append((self.name, self.extent, self.seen))


def living_holds() -> list[FileHold]:
    """Return all holds of this process. Only listings may call it, because it looks at every Python
    object.
    """
    return [found for found in gc.get_objects() if type(found) is FileHold and found.name]
