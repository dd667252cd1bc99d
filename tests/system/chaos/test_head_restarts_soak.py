"""A hundred restarts of the head under load, and twenty with a full disk (`make test-slow`).

PHALANX_RESTARTS and PHALANX_FULL_RESTARTS set how many.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.system_programs import find_tool

RESTARTS = int(os.environ.get("PHALANX_RESTARTS", "100"))
FULL_RESTARTS = int(os.environ.get("PHALANX_FULL_RESTARTS", "20"))
SEED = 15
DISK_MIB = 160
"""The size of the disk, which is larger than the store's reserves (see `storage.sqlite`)."""
ROOT = Path(__file__).parents[3]

pytestmark = [pytest.mark.slow, pytest.mark.timeout(0)]


def _run(arguments: list[str], before: list[str] | None = None) -> dict[str, int]:
    command = [
        *(before or []),
        sys.executable,
        "-m",
        "tests.system.chaos.head_restarts",
        *arguments,
    ]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    print(ended.stdout)
    seen: dict[str, int] = json.loads(ended.stdout.splitlines()[-1])
    return seen


def _place(kind: str, directory: Path) -> str:
    directory.chmod(0o700)
    return f"redis:{directory}/r" if kind == "redis" else str(directory / "store" / "control.db")


@pytest.mark.parametrize("kind", ["sqlite", "redis"])
def test_restarts_under_load(kind: str, tmp_path: Path) -> None:
    seen = _run([_place(kind, tmp_path), str(RESTARTS), str(SEED)])
    assert seen["restarts"] == RESTARTS
    assert seen["jobs"] > RESTARTS / 10


def test_restarts_with_a_full_disk(tmp_path: Path) -> None:
    unshare = find_tool("unshare")
    if unshare is None:
        pytest.skip("unshare is missing: apt-get install util-linux")
    mount = f'mount -t tmpfs -o size={DISK_MIB}m,mode=700 none {tmp_path}; exec "$@"'
    alone = [unshare, "--map-root-user", "--mount", "--", "sh", "-euc"]
    if subprocess.run([*alone, "mount -t tmpfs none /mnt"], check=False).returncode:
        pytest.skip("this kernel lets nobody mount a small disk in a namespace")
    place = _place("sqlite", tmp_path)
    seen = _run([place, str(FULL_RESTARTS), str(SEED), str(tmp_path)], [*alone, mount, "sh"])
    assert seen["restarts"] == FULL_RESTARTS
    assert seen["refused"] >= FULL_RESTARTS
    assert seen["while full"] > 0


def test_restarts_with_a_server_at_its_limit(tmp_path: Path) -> None:
    seen = _run([_place("redis", tmp_path), str(FULL_RESTARTS), str(SEED), "memory"])
    assert seen["refused"] >= FULL_RESTARTS
