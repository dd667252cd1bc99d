"""Waiting until other processes have handled all that was sent to them so far."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import TYPE_CHECKING

from phalanx.engines.embedded.client.reactor import Waiter
from phalanx.protocol.messages import Sync

if TYPE_CHECKING:
    from phalanx.engines.embedded.client.runtime import Runtime
    from phalanx.engines.processes.connection import Connection


class Syncs:
    """Questions of this kind that are not answered yet."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._tokens = itertools.count(1)
        self._open: dict[int, tuple[bytes, Callable[[], None]]] = {}

    def after(self, processes: set[bytes], action: Callable[[], None]) -> None:
        """Run `action` once these have handled everything sent to them so far."""
        left = [len(processes)]

        def answered() -> None:
            left[0] -= 1
            if not left[0]:
                action()

        for process in sorted(processes):
            connection = self._runtime.peer(process)
            if connection is None:
                answered()
                continue
            token = next(self._tokens)
            self._open[token] = (process, answered)
            self._runtime.post(connection, Sync(token))

    def wait(self, processes: set[bytes]) -> None:
        """Wait until these have done so. Called without the lock."""
        waiter = Waiter()
        with self._runtime.lock:
            self.after(processes, waiter.finish)
        self._runtime.flush()
        self._runtime.reactor.wait(waiter)

    def answered(self, token: int) -> None:
        """A process's answer to Sync."""
        entry = self._open.pop(token, None)
        if entry is not None:
            entry[1]()

    def are_open(self, process: bytes) -> bool:
        """Whether an answer of this process is waited for."""
        return any(asked == process for asked, _ in self._open.values())

    def say_anew(self, connection: Connection) -> None:
        """Ask once more what was not answered over the connection before."""
        for token, (process, _) in self._open.items():
            if process == connection.peer:
                connection.post(Sync(token))

    def process_gone(self, process: bytes) -> None:
        """It will never answer."""
        for token in [t for t, (asked, _) in self._open.items() if asked == process]:
            self.answered(token)
