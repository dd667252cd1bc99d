"""Makes a session's directories again if they were removed.

Runtime directories are removed when their user logs out, and cleaning programs delete old files.
Processes that listen in the session begin to listen again by themselves
(`connection.listen_again`). So the session is found and reached as before.
"""

from __future__ import annotations

import contextlib
import fcntl
import os

from phalanx.observe.log_lines import WARNING
from phalanx.runtime.os.real_disks import private_directory
from phalanx.runtime.os.session import Session
from phalanx.runtime.os.system import say

LOOK_EVERY_S = 1.0
_FILES = ("owner", "daemon", "kept/identity")
"""The files by which other programs find the session and its owner, and by which the node's next
process finds the members.
"""


class SessionKeeper:
    """Keeps the directories of one session."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._texts: dict[str, bytes] = {}
        self._locks: dict[str, int] = {}
        self._keeps = os.path.isdir(session.kept)
        self._look_at = 0.0
        self._failure = ""
        self._lock()

    def tick(self, now: float) -> None:
        """Check the directories if it is time. `now`: seconds of a clock that never goes
        backwards.
        """
        if now < self._look_at:
            return
        self._look_at = now + LOOK_EVERY_S
        missing = self._missing()
        if not missing:
            self._failure = ""
            self.remember()
            return
        try:
            self._make_again()
        except OSError as error:
            failure = f"{missing} was removed, and cannot be made again: {error.strerror or error}"
            if failure != self._failure:
                say(failure, level=WARNING)
            self._failure = failure
            return
        say(f"{missing} was removed by another program, and was made again", level=WARNING)

    def remember(self) -> None:
        """Read the files that `tick` writes again when they are missing.

        `tick` reads them each second. A daemon that has just written a file calls this method, so
        that a removal within the same second cannot lose the file.
        """
        for name in _FILES:
            path = os.path.join(self._session.directory, name)
            with contextlib.suppress(OSError), open(path, "rb") as file:
                text = file.read()
                if text:  # otherwise the file is just being written
                    self._texts[name] = text

    def _directories(self) -> list[str]:
        session = self._session
        return [
            *(session.directory, session.sockets, session.logs),
            *([session.kept] if self._keeps else []),
            *(session.spill, session.disk, session.shared),
        ]

    def _missing(self) -> str:
        files = [os.path.join(self._session.directory, name) for name in self._texts]
        wanted = (*self._directories(), *files)
        return next((path for path in wanted if not os.path.lexists(path)), "")

    def _make_again(self) -> None:
        root = private_directory(os.path.dirname(self._session.directory))
        private_directory(os.path.join(root, "logs"))
        for path in (self._session.spill, self._session.disk):
            private_directory(os.path.dirname(path))
        for path in self._directories():
            private_directory(path)
        for name, text in self._texts.items():
            path = os.path.join(self._session.directory, name)
            fd = os.open(path + ".new", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            with os.fdopen(fd, "wb") as file:
                file.write(text)
            os.rename(path + ".new", path)
        self._lock()

    def _lock(self) -> None:
        """Make cleaning programs skip the directories.

        systemd-tmpfiles skips a directory with a lock (tmpfiles.d(5)).
        """
        for path in (self._session.directory, self._session.spill, self._session.disk):
            with contextlib.suppress(OSError):
                fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
                fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
                if path in self._locks:
                    os.close(self._locks[path])
                self._locks[path] = fd
