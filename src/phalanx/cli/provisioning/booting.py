"""The file in which `phalanx provision` keeps the names of nodes whose machines it has requested.
The command's next process uses the file to end machines that never join.
"""

from __future__ import annotations

import contextlib
import os

import msgspec

from phalanx.runtime.os.real_disks import private_directory
from phalanx.storage.private_files import FileLock


class BootingFile:
    """The names of booting nodes by pool. Only one process at a time may use the file that belongs
    to a pools file.
    """

    def __init__(self, pools_file: str) -> None:
        """Take the lock. Raises StorageInUseError while another process provisions these pools."""
        directory = private_directory(os.path.expanduser("~/.phalanx/provision"))
        name = os.path.abspath(pools_file).strip("/").replace("/", "-")
        self._path = os.path.join(directory, f"{name}.json")
        self._lock = FileLock(self._path + ".lock", guards=os.path.abspath(pools_file))

    def read(self) -> dict[str, list[str]]:
        """Return the names that the last process wrote; none for a damaged file."""
        with contextlib.suppress(OSError, msgspec.MsgspecError), open(self._path, "rb") as file:
            return msgspec.json.decode(file.read(), type=dict[str, list[str]])
        return {}

    def write(self, booting: dict[str, list[str]]) -> None:
        """Replace the names in the file."""
        fd = os.open(self._path + ".new", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(fd, "wb") as file:
            file.write(msgspec.json.encode(booting))
        os.rename(self._path + ".new", self._path)

    def close(self) -> None:
        """Release the lock."""
        self._lock.close()
