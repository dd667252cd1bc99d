"""The files of a node's objects, in shared memory and on disk."""

from __future__ import annotations

import contextlib
import os
import shutil
import threading
from collections.abc import Callable, Sequence

from phalanx.node.object_room import Copied
from phalanx.runtime.os.session import Session

_PART = ".part"


class SessionFiles:
    """The files of a session's objects, in memory and on disk."""

    def __init__(self, session: Session) -> None:
        self._shared, self._spill = session.shared, session.spill

    def is_in_memory(self, name: str) -> bool:
        """Whether the object is in shared memory."""
        return os.path.exists(os.path.join(self._shared, name))

    def is_here(self, name: str) -> bool:
        """Whether the object is in shared memory or on disk."""
        return self.is_in_memory(name) or os.path.exists(os.path.join(self._spill, name))

    def stat(self, name: str) -> tuple[float, int] | None:
        """Return, for a file in memory, when it was written (in seconds since the epoch) and its
        size in bytes; None if the file does not exist.
        """
        try:
            found = os.stat(os.path.join(self._shared, name))
        except OSError:
            return None
        return found.st_mtime, found.st_size

    def delete(self, name: str) -> None:
        """Delete the object's files, in memory and on disk."""
        _unlink(os.path.join(self._shared, name))
        self.delete_spilled(name)

    def delete_spilled(self, name: str) -> None:
        """Delete the object's file on disk."""
        _unlink(os.path.join(self._spill, name))

    def rename(self, name: str, to: str) -> None:
        """Rename a file in memory."""
        with contextlib.suppress(FileNotFoundError):
            os.rename(os.path.join(self._shared, name), os.path.join(self._shared, to))

    def written_by(self, process: bytes) -> list[str]:
        """Return the objects that a process has written, in memory and on disk."""
        prefix = f"{process.hex()}-"
        places = (self._shared, self._spill)
        return [n for place in places for n in os.listdir(place) if n.startswith(prefix)]


class ThreadedSpill:
    """Copies files of objects from memory to disk.

    A thread copies one batch of files after another, so that the node does not wait for the disk.
    """

    def __init__(self, session: Session, call: Callable[[Callable[[], None]], None]) -> None:
        """`call` runs a function in the node's thread. Any thread may call it."""
        self._shared, self._spill = session.shared, session.spill
        self._call = call

    def copy(self, names: Sequence[str], copied: Copied) -> None:
        """Begin to copy these files. Later, `copied` is called once for each, with its error or
        with None.
        """
        threading.Thread(target=self._copy, args=(names, copied), daemon=True).start()

    def _copy(self, names: Sequence[str], copied: Copied) -> None:
        failures = [self.copy_one(name) for name in names]
        self._call(lambda: copied(failures))

    def copy_one(self, name: str) -> OSError | None:
        """Copy a file. Returns the error, or None after success."""
        try:
            shutil.copyfile(os.path.join(self._shared, name), self._part(name))
        except OSError as error:
            return error
        return None

    def keep_copy(self, name: str) -> bool:
        """Replace the file in memory by the copy. Returns False if the copy does not exist any
        more.
        """
        try:
            os.rename(self._part(name), os.path.join(self._spill, name))
        except FileNotFoundError:
            return False
        _unlink(os.path.join(self._shared, name))
        return True

    def discard_copy(self, name: str) -> None:
        """Delete a copy that is not needed."""
        _unlink(self._part(name))

    def _part(self, name: str) -> str:
        return os.path.join(self._spill, name + _PART)


def _unlink(path: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)
