"""Starts helper processes that replace killed helpers of a daemon. They are programs of their own.

The first helpers are forked from the daemon while it is small and has one thread. Later helpers are
not forked, because the daemon is larger by then and has several threads.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import msgspec

from phalanx.runtime.os.daemon_log import LOG
from phalanx.runtime.os.file_modes import keep_private, mask_of_work
from phalanx.runtime.os.polling import wait_for

MOST_KILLED = 10
WITHIN_S = 60.0
"""Seconds: if more than MOST_KILLED helpers are killed within this time, their daemon ends."""
_ENDING_S = 0.5
"""Seconds that a process may take to end after its connections have closed."""
WAS_KILLED = "was killed"
"""The clause about a helper that SIGKILL has ended."""
T = TypeVar("T")


class Deaths:
    """The times at which helpers were lately killed."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._at: list[float] = []

    def add(self) -> None:
        """Add the death of a helper that was killed just now."""
        now = self._clock()
        self._at = [at for at in self._at if now - at < WITHIN_S] + [now]

    def are_too_many(self) -> bool:
        """Whether too many helpers were killed within a short time, so that no further one is
        started.
        """
        now = self._clock()
        return sum(now - at < WITHIN_S for at in self._at) > MOST_KILLED


def start_helper(module: str, config: Any, pass_fds: Sequence[int]) -> int:
    """Start a module as a helper of this daemon. Returns the helper's pid. Raises OSError."""
    process = subprocess.Popen(
        [sys.executable, "-m", module],
        stdin=subprocess.PIPE,
        pass_fds=pass_fds,
        umask=mask_of_work(),
    )
    process.returncode = 0  # the daemon itself waits for the end of this process
    path, node, is_aloud = LOG.kept
    told = {"config": msgspec.to_builtins(config), "log": [path, node, is_aloud]}
    assert process.stdin is not None
    with contextlib.suppress(BrokenPipeError), process.stdin as stdin:
        stdin.write(json.dumps(told).encode() + b"\n")
    return process.pid


def begin_helper(name: str, config_type: type[T]) -> T:
    """Read and return the configuration of this process, which is a helper. Its log lines get the
    given name.
    """
    keep_private()
    told = json.loads(sys.stdin.readline())
    path, node, is_aloud = told["log"]
    LOG.keep(path, name, node, is_aloud=is_aloud)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    return msgspec.convert(told["config"], config_type)


def how_ended(pid: int) -> str:
    """Return a clause that says how a helper has ended. The helper's connection must have closed.
    An end without a signal is a fault of Phalanx.
    """
    try:
        pidfd = os.pidfd_open(pid)
        try:
            wait_for(pidfd, select.POLLIN, _ENDING_S)
        finally:
            os.close(pidfd)
        ended = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except OSError:
        ended = None
    if ended is None:
        return "has closed its connection"
    if ended.si_code == os.CLD_EXITED:
        return f"ended with exit code {ended.si_status}, which is a fault of Phalanx"
    if ended.si_status == signal.SIGKILL:
        return WAS_KILLED
    from phalanx.runtime.os.commands import signal_name  # seldom needed

    return f"was ended by {signal_name(ended.si_status)}"


def end_helper(pid: int) -> None:
    """End a helper. Returns when its descendants have become children of this process."""
    with contextlib.suppress(ProcessLookupError, ChildProcessError):
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
