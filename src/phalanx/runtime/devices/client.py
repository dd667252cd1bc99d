"""A node's side of the process that reads its devices."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from phalanx.node.devices import LOOK_EVERY_S
from phalanx.observe.devices import DeviceSample
from phalanx.runtime.devices.process import Look
from phalanx.runtime.os.connection_loop import ConnectionLoop
from phalanx.runtime.os.environment import child_environment

_DRIVER = Path("/proc/driver/nvidia/version")
_CHUNK = 1 << 16
_LONGEST_LINE = 1 << 22


class DeviceProcess:
    """Starts the process that reads the devices, and passes its readings to the node."""

    def __init__(
        self,
        source: str,
        loop: ConnectionLoop,
        seen: Callable[[Sequence[DeviceSample], str], None],
        ended: Callable[[str], None],
    ) -> None:
        """`source`: the path of a file that is read in place of the driver; "" for NVIDIA's driver.
        In the loop's thread, `seen` is called with each reading, or with the reason why it failed,
        and `ended` with how the process ended.
        """
        self._source = source
        self._loop = loop
        self._seen = seen
        self._ended = ended
        self._process: subprocess.Popen[bytes] | None = None
        self._rest = b""
        self._heard = False
        """Whether the process has sent a reading. Before its first reading, the signal that asks
        for a reading could end the process.
        """

    @property
    def pid(self) -> int:
        """The id of the process; 0 before one was started."""
        return 0 if self._process is None else self._process.pid

    def begin(self) -> bool:
        """Start the process. Returns False if there is nothing to read, or if the process runs
        already.
        """
        if not (self._source or _DRIVER.exists()) or self._is_alive():
            return False
        module = "phalanx.runtime.devices.process"
        self._process = process = subprocess.Popen(
            [sys.executable, "-m", module, self._source, str(LOOK_EVERY_S)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            env=child_environment(),
        )
        assert process.stdout is not None
        os.set_blocking(process.stdout.fileno(), False)
        self._rest = b""
        self._heard = False
        self._loop.read_from(process.stdout.fileno(), self._read)
        return True

    def end(self) -> None:
        """End the process. If it hangs in the kernel, it ends when the kernel allows it."""
        if self._process is not None:
            self._close()
            self._process.kill()

    def look(self) -> None:
        """Ask the process for a reading soon."""
        if self._process is not None and self._heard and self._is_alive():
            self._process.send_signal(signal.SIGUSR1)

    def _is_alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def _close(self) -> None:
        assert self._process is not None
        assert self._process.stdout is not None
        if not self._process.stdout.closed:
            self._loop.unregister(self._process.stdout.fileno())
            self._process.stdout.close()

    def _read(self) -> None:
        assert self._process is not None
        assert self._process.stdout is not None
        try:
            data = os.read(self._process.stdout.fileno(), _CHUNK)
        except BlockingIOError:
            return
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            self._heard = True
            with contextlib.suppress(msgspec.MsgspecError):
                look = msgspec.json.decode(line, type=Look)
                self._seen(look.samples, look.trouble)
        if not data or len(self._rest) > _LONGEST_LINE:
            self.end()
            self._ended("the process that reads its GPUs ended, and is started again")
