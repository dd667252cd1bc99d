"""Stand-ins for a GPU and its driver in rehearsals: a declared card, and a daemon of MPS."""

from __future__ import annotations

import json
from pathlib import Path

DAEMON = """#!/bin/sh
sleep 600 > /dev/null 2>&1 &
echo $! > "$CUDA_MPS_PIPE_DIRECTORY/nvidia-cuda-mps-control.pid"
"""


def declare_card(folder: Path) -> Path:
    """Write the file that declares one card of 80 GiB. Returns its path."""
    file = folder / "devices.json"
    file.write_text(json.dumps({"devices": [{"uuid": "GPU-a", "memory_total": 80 * 2**30}]}))
    file.chmod(0o644)
    return file
