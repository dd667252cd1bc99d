"""The clock of a head's machine is set ahead and back under jobs (`make test-slow`).

PHALANX_CLOCK_STEPS sets the number of rounds, PHALANX_CLOCK_STEPS_SEED the seed.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.system.chaos.soaking import Soak

pytestmark = [pytest.mark.slow, pytest.mark.timeout(0)]


def test_clock_steps_under_jobs(tmp_path: Path) -> None:
    soak = Soak(module="clock_steps", name="PHALANX_CLOCK_STEPS", rounds=30)
    seen = soak.run(str(tmp_path))
    assert seen["ahead"] > 0 and seen["back"] > 0
