"""Directories of each kind are filled, removed and made read-only under jobs (`make test-slow`).

PHALANX_DIRECTORIES sets the number of rounds, PHALANX_DIRECTORIES_SEED the seed.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from tests.system.chaos.soaking import Soak
from tests.system_programs import find_tool

pytestmark = [pytest.mark.slow, pytest.mark.timeout(0)]
SOAK = Soak(module="directories", name="PHALANX_DIRECTORIES", rounds=20)


def test_directories_under_jobs(tmp_path: Path) -> None:
    unshare = find_tool("unshare")
    if unshare is None:
        pytest.skip("unshare is missing: apt-get install util-linux")
    alone = (unshare, "--map-root-user", "--mount", "--", "sh", "-euc")
    if subprocess.run([*alone, "mount -t tmpfs none /mnt"], check=False).returncode:
        pytest.skip("this kernel lets nobody mount a small disk in a namespace")
    places = [tmp_path / "a", tmp_path / "b"]
    for place in places:
        place.mkdir()
    mounts = [
        f"mount -t tmpfs -o size=16m,mode=1777 none {place}" for place in (*places, "/var/tmp")
    ]
    script = "; ".join(mounts) + '; exec "$@"'
    seen = SOAK.run(str(tmp_path), before=(*alone, script, "sh"))
    assert seen["jobs"] >= seen["rounds"]
