"""The detection of files that were removed while they were open, and their repair.

A process can continue to write to a file that has lost its name, but everything that it writes is
lost when the process ends. A file loses its name if its directory is removed, moved or cleaned up.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3

from phalanx.storage.errors import StorageError
from phalanx.storage.private_files import prepare_file, sync_directory

_LOG = "-wal"
_Number = tuple[int, int]


def number_of(path: str) -> _Number | None:
    """Return the device and inode numbers of the file at a path; None if there is no file.

    Raises OSError.
    """
    try:
        found = os.stat(path, follow_symlinks=False)
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino


def is_at(fd: int, path: str) -> bool:
    """Whether an open file is the file at this path. Raises OSError."""
    found = os.fstat(fd)
    return number_of(path) == (found.st_dev, found.st_ino)


class DatabaseFiles:
    """The files of an SQLite database that is open, with a write-ahead log."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._known: dict[str, _Number] = {}
        """The device and inode numbers of each file, as `are_there` first found them."""

    def are_there(self) -> bool:
        """Whether all files that existed at earlier calls still have their names. Raises
        OSError.
        """
        for ending in ("", _LOG):
            found = number_of(self._path + ending)
            if found is not None:
                self._known.setdefault(ending, found)
            if self._known.get(ending) != found:
                return False
        return True

    def write_again(self, db: sqlite3.Connection) -> None:
        """Write the database to its path again.

        `db` still has the removed files: `close_removed` closes it, and then the database can be
        opened again. Raises OSError and sqlite3.Error, and StorageError if another file is at the
        path.
        """
        if number_of(self._path) not in (None, self._known.get("")):
            raise StorageError("now there is another file")
        draft = self._path + ".again"
        with contextlib.suppress(FileNotFoundError):
            os.unlink(draft)
        prepare_file(draft, beside=())
        with contextlib.closing(sqlite3.connect(draft)) as copy:
            db.backup(copy)
            copy.execute("PRAGMA journal_mode = DELETE")  # the copy is one file
        os.rename(draft, self._path)
        sync_directory(os.path.dirname(self._path))
        self._known.clear()

    def close_removed(self, db: sqlite3.Connection) -> None:
        """Close a database that was written again, and delete what is left of its old log."""
        with contextlib.suppress(sqlite3.Error):
            db.close()
        for ending in (_LOG, "-shm"):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self._path + ending)
