"""Processes of every kind are stopped at random moments under load, and go on (`make test-slow`).

PHALANX_PAUSES says how often, PHALANX_PAUSES_SEED with which luck.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

PAUSES = int(os.environ.get("PHALANX_PAUSES", "20"))
SEED = int(os.environ.get("PHALANX_PAUSES_SEED", "42"))
ROOT = Path(__file__).parents[3]

pytestmark = [pytest.mark.slow, pytest.mark.timeout(0)]


def test_pauses_under_load(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.system.chaos.pauses", str(PAUSES), str(SEED)]
    store = str(tmp_path / "control.db")
    tmp_path.chmod(0o700)
    ended = subprocess.run([*command, store], cwd=ROOT, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    print(ended.stdout)
    seen: dict[str, int] = json.loads(ended.stdout.splitlines()[-1])
    assert seen["pauses"] == PAUSES
    assert seen["jobs"] > 0
    assert seen["tasks"] > 0
    assert seen["calls"] > 0
