"""A process that stays in the foreground while its daemons run, for service managers."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from types import FrameType
from typing import NamedTuple

from phalanx.runtime.daemons.starting import STOP_TIMEOUT_S, Daemon
from phalanx.runtime.os.process_tree import is_group_alive

NOTIFY = "NOTIFY_SOCKET"
"""The variable in which systemd names the socket for news of a service; see sd_notify(3)."""
_ENDS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_LOOK_EVERY_S = 0.02


class Watched(NamedTuple):
    """A process for which this process waits."""

    pid: int
    stop: Callable[[], None]
    """Ends the process in an orderly way, and returns when it has ended."""


def stay(daemons: Sequence[Daemon]) -> Daemon | None:
    """Wait for a signal that asks this process to end, or for the end of a daemon. Then end all
    daemons.

    They are ended in the reverse order of `daemons`. Returns the daemon that ended of its own
    accord; None after a signal.
    """
    ended = wait_for_end([Watched(one.process.pid, partial(_stop, one)) for one in daemons])
    return None if ended is None else daemons[ended]


def wait_for_end(watched: Sequence[Watched]) -> int | None:
    """Wait as `stay` does. Returns the index in `watched` of the process that ended of its own
    accord; None after a signal.
    """
    with _signals() as ending, contextlib.ExitStack() as opened:
        fds: list[int] = []
        ended: int | None = None
        for one in watched:
            try:
                fds.append(os.pidfd_open(one.pid))
            except ProcessLookupError:  # it has ended before it could be watched
                ended = len(fds)
                break
            opened.callback(os.close, fds[-1])
        if ended is None:
            notify("READY=1")
            ready, _, _ = select.select([ending, *fds], [], [])
            ended = next((fds.index(fd) for fd in ready if fd != ending), None)
            notify("STOPPING=1")
        for one in reversed(watched):
            one.stop()
    return ended


def notify(news: str) -> None:
    """Send news to the service manager that started this process. Do nothing if there is no service
    manager.
    """
    address = os.environ.get(NOTIFY, "")
    if address[:1] not in ("/", "@"):
        return
    with (
        contextlib.suppress(OSError),
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sender,
    ):
        sender.sendto(news.encode(), address.replace("@", "\0", 1))


@contextlib.contextmanager
def _signals() -> Iterator[int]:
    """Yield a descriptor that becomes readable when a signal asks this process to end."""
    end, write = os.pipe()
    os.set_blocking(write, False)
    before = signal.set_wakeup_fd(write)
    handlers = {one: signal.signal(one, _noted) for one in _ENDS}
    try:
        yield end
    finally:
        for one, handler in handlers.items():
            signal.signal(one, handler)
        signal.set_wakeup_fd(before)
        os.close(end)
        os.close(write)


def _noted(number: int, frame: FrameType | None) -> None:
    """Do nothing: the wakeup descriptor shows that the signal has arrived."""


def _stop(daemon: Daemon) -> None:
    """End a daemon, and wait for the processes that it leaves behind. Kill them if they do not
    end.
    """
    daemon.stop()
    group = daemon.process.pid
    deadline = time.monotonic() + STOP_TIMEOUT_S
    while is_group_alive(group):
        if time.monotonic() > deadline:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(group, signal.SIGKILL)
            deadline = float("inf")
        time.sleep(_LOOK_EVERY_S)
