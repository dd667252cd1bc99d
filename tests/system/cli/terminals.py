"""Commands at a real terminal: what they show, and how they react to what is typed."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import struct
import subprocess
import sys
import termios
import time

from tests.system.cli.conftest import COMMAND, PATIENCE_S, Machine

CHUNK = 1 << 16


class Terminal:
    """One command of a machine, at a terminal of its own."""

    def __init__(self, machine: Machine, *arguments: str, rows: int = 30, columns: int = 100):
        self.side, other = pty.openpty()
        self.resize(rows, columns)
        self.before = termios.tcgetattr(self.side)
        self.process = subprocess.Popen(
            [sys.executable, "-c", COMMAND, *arguments],
            env=machine.env | {"TERM": "xterm"},
            stdin=other,
            stdout=other,
            stderr=other,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # noqa: PLW1509
        )
        os.close(other)
        self.shown = b""

    def resize(self, rows: int, columns: int) -> None:
        """Change the size of the terminal. The kernel signals the change to the processes that run
        there.
        """
        fcntl.ioctl(self.side, termios.TIOCSWINSZ, struct.pack("4H", rows, columns, 0, 0))

    def type(self, text: str) -> None:
        os.write(self.side, text.encode())

    def wait_for(self, text: str) -> str:
        """Read until the terminal has shown `text`; return everything before it."""
        wanted, deadline = text.encode(), time.monotonic() + PATIENCE_S
        while wanted not in self.shown:
            left_s = deadline - time.monotonic()
            data = b""
            if left_s > 0 and select.select([self.side], [], [], left_s)[0]:
                try:
                    data = os.read(self.side, CHUNK)
                except OSError:  # EIO: everybody has closed it
                    data = b""
            assert data, f"{text!r} did not come: {self.shown!r}"
            self.shown += data
        seen, _, self.shown = self.shown.partition(wanted)
        return seen.decode()

    def code(self) -> int:
        """Wait until the command has ended; return its exit code. Reads the last output meanwhile,
        because the command could not end otherwise.
        """
        deadline = time.monotonic() + PATIENCE_S
        while self.process.poll() is None:
            assert time.monotonic() < deadline, self.shown
            if select.select([self.side], [], [], 0.05)[0]:
                try:
                    self.shown += os.read(self.side, CHUNK)
                except OSError:
                    break
        return self.process.wait(PATIENCE_S)

    def is_restored(self) -> bool:
        """Whether the terminal handles keys as it did before the command."""
        return termios.tcgetattr(self.side)[:4] == self.before[:4]

    def close(self) -> None:
        """Kill the command, whatever it does."""
        self.process.kill()
        self.process.wait()
        os.close(self.side)
