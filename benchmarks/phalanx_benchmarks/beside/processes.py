"""Starts the daemons of a comparison in the foreground, and ends them by their process ids."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

PATIENCE_S = 90.0
"""Seconds within which a daemon must answer. The limit is high, because machines are shared and
slow.
"""
_GRACE_S = 15.0
"""Seconds within which a daemon must end by itself."""


class Daemons:
    """The processes that a comparison has started. The newest process is ended first."""

    def __init__(self, directory: Path) -> None:
        """The output of each daemon is written to a file with the daemon's name in `directory`."""
        self._directory = directory
        self._running: list[tuple[str, subprocess.Popen[bytes]]] = []

    def start(self, name: str, command: Sequence[str], env: Mapping[str, str]) -> None:
        """Start a daemon in a process group of its own."""
        with open(self._directory / f"{name}.out", "ab") as output:
            process = subprocess.Popen(
                command, env=dict(env), stdin=subprocess.DEVNULL, stdout=output, stderr=output,
                start_new_session=True, cwd=self._directory,
            )  # fmt: skip
        self._running.append((name, process))

    def end(self, *names: str) -> None:
        """End the named daemons or, without names, all of them."""
        for name, process in reversed(self._running):
            if not names or name in names:
                _end(process)
        self._running = [one for one in self._running if one[1].poll() is None]

    def __contains__(self, name: str) -> bool:
        return any(name == known for known, _ in self._running)

    def check(self) -> None:
        """Raise RuntimeError, with the daemon's last output, if a daemon has ended unexpectedly."""
        for name, process in self._running:
            if process.poll() is not None:
                text = (self._directory / f"{name}.out").read_text(errors="replace")
                raise RuntimeError(f"{name} ended with {process.returncode}: {text[-1000:]}")


def _end(process: subprocess.Popen[bytes]) -> None:
    for number in (signal.SIGTERM, signal.SIGKILL):
        if process.poll() is not None:
            return
        os.killpg(process.pid, number)
        try:
            process.wait(_GRACE_S)
        except subprocess.TimeoutExpired:
            continue


def wait_until(holds: Callable[[], bool], what: str, within_s: float = PATIENCE_S) -> None:
    """Call `holds` until it returns true. Raises TimeoutError, which names `what`."""
    ends = time.monotonic() + within_s
    while not holds():
        if time.monotonic() > ends:
            raise TimeoutError(f"{what}: not within {within_s:g} s")
        time.sleep(0.1)


def free_ports(count: int) -> list[int]:
    """Return ports of the loopback address on which nothing listens."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports
