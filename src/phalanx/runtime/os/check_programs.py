"""Runs the health checks of a node. Each check is a shell command in a Unix session of its own,
with low priority.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence

from phalanx.node.checks import Exit
from phalanx.runtime.os.environment import without_our_path
from phalanx.runtime.os.file_modes import mask_of_work

_NICE = 10
_MOST_OUTPUT = 1 << 20
_TAIL = 4096
# The child sets this limit itself, before the check begins. If it were set from outside, processes
# that the check had started before could print without a limit. A shell counts the limit in blocks
# of 512 bytes.
_LIMITED = f'ulimit -f {_MOST_OUTPUT // 512} && exec nice -n {_NICE} /bin/sh -c "$1"'


class CheckCommands:
    """The check commands of a node. The output of each command's last run is in a file of its
    own.
    """

    def __init__(self, commands: Mapping[str, str], directory: str) -> None:
        """`commands`: the shell commands, by name. `directory`: the place of their output."""
        self._commands = commands
        self._directory = directory
        self._process: subprocess.Popen[bytes] | None = None
        self._failure: Exit | None = None
        self._path = ""

    @property
    def names(self) -> Sequence[str]:
        """The names of the checks."""
        return tuple(self._commands)

    @property
    def pid(self) -> int:
        """The pid of the check that runs or ran last; 0 if there was none."""
        return 0 if self._process is None else self._process.pid

    def start(self, name: str, when: str) -> None:
        """Start a check. `when`: the occasion of the check, which its command finds in
        PHALANX_CHECK_WHEN.
        """
        self._path = os.path.join(self._directory, f"check-{name}.log")
        try:
            with open(self._path, "wb") as output:
                self._process = subprocess.Popen(
                    ["/bin/sh", "-c", _LIMITED, "check", self._commands[name]],
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    start_new_session=True,
                    umask=mask_of_work(),
                    env=without_our_path(os.environ)
                    | {"PHALANX_CHECK": name, "PHALANX_CHECK_WHEN": when},
                )
        except OSError as error:
            self._failure = Exit(None, error.strerror or str(error))

    def ended(self) -> Exit | None:
        """Return how the running check ended; None while it runs. Processes that the check has left
        behind are killed.
        """
        failure, self._failure = self._failure, None
        if failure is not None or self._process is None:
            return failure
        code = self._process.poll()
        if code is None:
            return None
        self.kill()  # kill the processes that the check left behind
        self._process = None
        return Exit(code, self._last_line())

    def kill(self) -> None:
        """Kill the running check, with all its processes."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)

    def _last_line(self) -> str:
        try:
            with open(self._path, "rb") as file:
                file.seek(max(os.fstat(file.fileno()).st_size - _TAIL, 0))
                lines = file.read().decode(errors="replace").split("\n")
        except OSError:
            return ""
        return next((line.strip() for line in reversed(lines) if line.strip()), "")
