"""Containers whose runner was killed, and which their tool has therefore not removed.

Each runner notes its container in a file before the tool makes the container, and deletes the file
at its end. A file whose runner is dead names a leftover.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator

from phalanx.model.environments import VARIABLE
from phalanx.runtime.environments.place import environments_directory
from phalanx.runtime.os.session import started_at

_DIRECTORY = ".containers"
_PREFIX = "phalanx-"
_PATIENCE_S = 60.0
"""Seconds that a tool may take to remove a container."""


def name_of(pid: int) -> str:
    """Return the name of the container that the process with this pid runs."""
    return f"{_PREFIX}{pid}-{started_at(pid)}"


@contextlib.contextmanager
def noted(name: str, tool: str) -> Iterator[None]:
    """Note the name of a container in a file until the block ends. `tool`: the path of the tool
    that makes the container.
    """
    os.makedirs(_directory(), mode=0o700, exist_ok=True)
    path = os.path.join(_directory(), name)
    with open(path, "w", encoding="utf-8") as file:
        file.write(tool)
    yield
    os.unlink(path)


def remove(name: str, tool: str) -> bool:
    """End and remove a container, if it exists. Returns whether the container is gone."""
    quiet = subprocess.DEVNULL
    try:
        done = subprocess.run(
            [tool, "rm", "--force", name],
            check=False,
            timeout=_PATIENCE_S,
            stdin=quiet,
            stdout=quiet,
            stderr=subprocess.PIPE,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0 or b"no such container" in done.stderr.lower()


def remove_leftovers() -> None:
    """Remove the containers whose runners are dead."""
    with contextlib.suppress(FileNotFoundError):
        for name in os.listdir(_directory()):
            if _is_left(name):
                _remove(name)


def _remove(name: str) -> None:
    path = os.path.join(_directory(), name)
    with contextlib.suppress(FileNotFoundError):  # another process removes it, too
        with open(path, encoding="utf-8") as file:
            tool = file.read()
        if remove(name, tool):
            os.unlink(path)


def _is_left(name: str) -> bool:
    pid, _, started = name.removeprefix(_PREFIX).partition("-")
    return pid.isdecimal() and started_at(int(pid)) != started


def _directory() -> str:
    return os.path.join(os.environ.get(VARIABLE) or environments_directory(), _DIRECTORY)


def main() -> int:
    """Remove all leftovers of this account on this machine. Returns 0."""
    remove_leftovers()
    return 0


if __name__ == "__main__":
    sys.exit(main())
