"""The program that `mpirun` calls instead of ssh.

AGENT HOST COMMAND ... runs the command on the node HOST, inside a member.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from phalanx.adapters.mpi import HOSTS

WITH_VALUES = frozenset({"-l", "-p", "-i", "-o", "-F"})
"""Options of ssh that take a value. They have no effect here."""


def read_call(words: Sequence[str]) -> tuple[str, str]:
    """Return the host, and the command as a text for a shell, from arguments in ssh's form. Raises
    ValueError for other arguments.
    """
    left = list(words)
    while left and left[0].startswith("-"):
        del left[: 2 if left[0] in WITH_VALUES else 1]
    if len(left) < 2:
        raise ValueError(f"the arguments must be HOST COMMAND, not {list(words)}")
    return left[0], " ".join(left[1:])


def member_of(host: str, listed: str) -> str:
    """Return the member in which a host's processes run. `listed` is a text with a line `HOST
    MEMBER` for each host. Raises ValueError for any other host.
    """
    members = dict(line.split() for line in listed.splitlines())
    if host not in members:
        raise ValueError(f"{host} is not a host of this job, whose hosts are: {', '.join(members)}")
    return members[host]


def main() -> int:
    """Replace this process by `phalanx shell`. Returns an exit code only if that fails."""
    try:
        host, command = read_call(sys.argv[1:])
        member = member_of(host, Path(os.environ[HOSTS]).read_text())
    except (ValueError, KeyError, OSError) as error:
        print(f"phalanx.adapters.mpi_agent: {error}", file=sys.stderr)
        return 255
    job = f"{os.environ['PHALANX_NAMESPACE']}/{os.environ['PHALANX_JOB']}.{member}"
    step = [sys.executable, "-m", "phalanx", "shell", job, "--no-pty", "--", "sh", "-c", command]
    return os.execv(sys.executable, step)


if __name__ == "__main__":
    sys.exit(main())
