"""Processes of every kind are stopped at random moments under load, and continued (`make
test-slow`).

PHALANX_PAUSES sets the number of pauses, PHALANX_PAUSES_SEED the seed.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.system.chaos.pauses import KINDS
from tests.system.chaos.soaking import Soak

pytestmark = [pytest.mark.slow, pytest.mark.timeout(0)]


def test_pauses_under_load(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    seen = Soak(module="pauses", name="PHALANX_PAUSES", rounds=200).run(
        str(tmp_path / "control.db")
    )
    if seen["rounds"] >= 10 * len(KINDS):  # a process may end before it can be stopped
        assert not [kind for kind in KINDS if not seen.get(kind)]
    assert seen["jobs"] > 0
    assert seen["tasks"] > 0
    assert seen["calls"] > 0
    assert seen["gangs"] > 0
    assert seen["owned"] > 0
