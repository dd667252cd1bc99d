"""What belongs to jobs on a node's disk: their files, their members' directories and logs."""

from __future__ import annotations

import contextlib
import os
import shutil
from typing import NamedTuple

from phalanx.protocol.cluster_messages import FILES, Command, StartMember


class Placed(NamedTuple):
    """A command as it runs on this node."""

    argv: list[str]
    variables: dict[str, str]
    directory: str


class JobDirectories:
    """See job_members.JobFiles. A directory for each job below `root`; all have mode 0700."""

    def __init__(self, root: str) -> None:
        self._root = root

    def _directory(self, job: str) -> str:
        return os.path.join(self._root, job)

    def make(self, order: StartMember) -> str:
        """See JobFiles."""
        directory = self._directory(order.job)
        os.makedirs(os.path.join(directory, order.name), mode=0o700, exist_ok=True)
        if order.files:
            files = os.path.join(directory, "files")
            os.makedirs(files, mode=0o700, exist_ok=True)
            for name, text in order.files.items():
                with open(os.path.join(files, os.path.basename(name)), "w") as file:
                    file.write(text + "\n")
        return os.path.join(directory, f"{order.name}.{order.attempt}.log")

    def place(self, order: StartMember, command: Command) -> Placed:
        """A member's command with this node's directories in its words and variables."""
        directory = self._directory(order.job)
        files = os.path.join(directory, "files")
        return Placed(
            [word.replace(FILES, files) for word in command.argv],
            {name: value.replace(FILES, files) for name, value in command.variables.items()},
            command.directory or os.path.join(directory, order.name),
        )

    def remove(self, job: str) -> None:
        """See JobFiles."""
        shutil.rmtree(self._directory(job), ignore_errors=True)

    def read(self, path: str, offset: int, limit: int) -> tuple[bytes, int]:
        """See JobFiles."""
        root, real = os.path.realpath(self._root), os.path.realpath(path)
        data, size = b"", -1
        if real.startswith(root + os.sep):
            with contextlib.suppress(OSError), open(real, "rb") as file:
                size = os.fstat(file.fileno()).st_size
                file.seek(offset)
                data = file.read(limit)
        return data, size
