"""NVIDIA's Multi-Process Service (MPS): one control daemon for each GPU that is shared by MPS.

The daemon runs as the node's user, with a directory of its own. It writes its pid into that
directory, and its end is noticed through the pid.
"""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import signal
import subprocess
from pathlib import Path

from phalanx.runtime.os.environment import child_environment
from phalanx.runtime.os.session import note_helper

PROGRAM = "nvidia-cuda-mps-control"
START_WITHIN_S = 5.0
"""Seconds within which the daemon must have gone to the background."""
_PID_FILE = "nvidia-cuda-mps-control.pid"


def has_mps() -> bool:
    """Whether this machine has the control daemon of MPS."""
    return shutil.which(PROGRAM) is not None


class MpsControl:
    """The MPS daemons of a node's GPUs. It implements `gpu_shares.MpsDaemons`."""

    def __init__(self, directory: str) -> None:
        """`directory` is made when it is needed. It gets a directory for each GPU."""
        self._directory = directory
        self._running: dict[int, int] = {}
        """For each GPU with a daemon: a descriptor that becomes readable when the daemon ends."""

    def directory(self, number: int, name: str) -> str:
        """Return the directory with the pipes of a GPU's daemon. If the daemon does not run, it is
        started.

        Raises OSError if it does not start.
        """
        place = Path(self._directory, f"mps{number}")
        if number in self._running:
            return str(place)
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        (place / _PID_FILE).unlink(missing_ok=True)
        self._control(place, ["-d"], {"CUDA_VISIBLE_DEVICES": name})
        try:
            pid = int((place / _PID_FILE).read_text())
            self._running[number] = os.pidfd_open(pid)
            # otherwise the daemon would outlive a node that is killed
            note_helper(self._directory, pid)
        except ValueError as error:
            raise OSError(f"{PROGRAM} wrote no pid into {place}: {error}") from None
        return str(place)

    def end(self, number: int) -> None:
        """End the daemon of a GPU, if it runs. The daemon ends its servers."""
        handle = self._running.pop(number, None)
        if handle is None:
            return
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(handle, signal.SIGTERM)
        os.close(handle)

    def ended(self) -> dict[int, str]:
        """Return the GPUs whose daemons have ended of their own accord since the last call. Each
        comes with a clause that says how its daemon ended.
        """
        gone = [n for n, handle in self._running.items() if select.select([handle], [], [], 0)[0]]
        for number in gone:
            os.close(self._running.pop(number))
        return dict.fromkeys(gone, "has ended")

    def end_all(self) -> None:
        """End all daemons, because the node ends."""
        for number in list(self._running):
            self.end(number)

    def _control(self, place: Path, words: list[str], more: dict[str, str]) -> None:
        mine = {"CUDA_MPS_PIPE_DIRECTORY": str(place), "CUDA_MPS_LOG_DIRECTORY": str(place)}
        with open(place / "start.log", "wb") as log:
            try:
                done = subprocess.run(
                    [PROGRAM, *words],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    env=child_environment() | mine | more,
                    timeout=START_WITHIN_S,
                    check=False,
                )
            except subprocess.TimeoutExpired:
                raise OSError(f"{PROGRAM} did not start within {START_WITHIN_S:g} s") from None
        if done.returncode:
            said = (place / "start.log").read_text(errors="replace").strip()[-200:]
            raise OSError(f"{PROGRAM} ended with {done.returncode}: {said}")
