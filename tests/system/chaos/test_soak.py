"""Work continues with correct results while workers are killed, and no resources leak.

The long version is marked slow; PHALANX_SOAK_S sets its seconds.
"""

from __future__ import annotations

import os

import pytest
from tests.system.chaos.workload import Soak

ALLOWED = {
    "driver MiB": 40,
    "node MiB": 25,
    "driver descriptors": 6,
    "node descriptors": 6,
    "fork server descriptors": 18,
    "processes": 6,
    "sockets": 6,
    "object files": 12,
}
"""How much each count may grow between the first rounds and the end. Caches and idle workers may
hold this much.
"""


@pytest.mark.parametrize(
    "duration_s",
    [
        pytest.param(3.0, id="short"),
        pytest.param(
            float(os.environ.get("PHALANX_SOAK_S", "600")),
            id="long",
            marks=[pytest.mark.slow, pytest.mark.timeout(0)],
        ),
    ],
)
def test_soak(start, duration_s):
    soak = Soak(start(num_cpus=3, object_store_memory=200 << 20), seed=int(duration_s))
    soak.run(min(duration_s / 4, 20.0))
    before = soak.measure()
    soak.run(duration_s, least_kills=6)
    left = soak.leaks(before, ALLOWED)
    print(f"\n{soak.rounds} rounds, {soak.results} results, {soak.kills} workers killed")
    print(f"before {before}\nafter  {soak.measure()}")
    assert not left, f"grown from, to: {left}"
