"""Stand-ins for a GPU and its driver in rehearsals: a declared card, and a daemon of MPS."""

from __future__ import annotations

import json
import time
from pathlib import Path

DAEMON = """#!/bin/sh
sleep 600 > /dev/null 2>&1 &
echo $! > "$CUDA_MPS_PIPE_DIRECTORY/nvidia-cuda-mps-control.pid"
"""
_WITHIN_S = 60.0


def declare_card(folder: Path, *processes: tuple[int, int]) -> Path:
    """Write the file that declares one card of 80 GiB. Returns its path.

    `processes`: pairs of a process that uses the card, and its bytes there.
    """
    card = {"uuid": "GPU-a", "memory_total": 80 * 2**30, "processes": processes}
    file, new = folder / "devices.json", folder / "devices.new"
    new.write_text(json.dumps({"devices": [card]}))
    new.chmod(0o644)
    new.rename(file)
    return file


def idle_command(file: Path) -> list[str]:
    """Return a command that writes its pid into a file and waits. A test can then name this process
    in `declare_card`.
    """
    return ["sh", "-c", f"echo $$ > {file}.new; mv {file}.new {file}; exec sleep 600"]


def pid_in(file: Path) -> int:
    """Wait until `idle_command` has written its pid. Returns the pid."""
    end = time.monotonic() + _WITHIN_S
    while not file.exists():
        if time.monotonic() > end:
            raise RuntimeError(f"no process has written {file}")
        time.sleep(0.05)
    return int(file.read_text())
