"""Starts a command as a fork server's thread does."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Mapping, Sequence

from phalanx.runtime.os.command_start import CommandStart


def start_command(
    argv: Sequence[str],
    variables: Mapping[str, str],
    directory: str,
    log: str,
    entrance: int = -1,
    start: CommandStart | None = None,
    umask: int = 0o022,
) -> int:
    """Its pid; of the calling thread, with which it ends. `entrance`: a copy of it is used."""

    def copied() -> int:
        return -1 if entrance < 0 else os.dup(entrance)

    pid = ctypes.c_int(0)
    (start or CommandStart()).start(argv, variables, directory, log, copied, pid, umask)
    return pid.value
