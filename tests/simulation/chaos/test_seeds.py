"""Simulated clusters keep their invariants: over a fixed set of seeds, and over every seed that
once failed.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from phalanx_research.chaos.run import try_seed

FIXED = [*range(1, 26)]
SLOW = {16, 24}
"""The fixed seeds that take several seconds."""


def stored():
    """Return the seeds that once failed. Those that `make test` leaves out are marked as slow."""
    for line in Path(__file__).with_name("seeds.txt").read_text().splitlines():
        if words := line.split("#")[0].split():
            yield int(words[0]), words[1:] == ["slow"]


SEEDS = [*((seed, seed in SLOW) for seed in FIXED), *stored()]


@pytest.mark.parametrize(
    "seed",
    [pytest.param(seed, marks=[pytest.mark.slow] * is_slow) for seed, is_slow in SEEDS],
)
def test_every_promise_holds(seed):
    result, _ = try_seed(seed)
    assert not result.broken, "\n".join([*result.story, result.broken, result.replay])


def test_the_seeds_meet_all_kinds_of_trouble_and_work():
    """Each seed leaves out many kinds of faults and of work (swarm testing). All seeds together
    must cover all kinds.
    """
    from phalanx_research.chaos.faults import MESSAGE_FAULTS
    from phalanx_research.chaos.kernel import Kernel
    from phalanx_research.chaos.options import FAULTS, draw

    options = [draw(Kernel(str(seed))) for seed in FIXED if seed not in SLOW]
    assert {fault for one in options for fault in one.faults} == set(FAULTS)
    assert set(FAULTS) > MESSAGE_FAULTS
    for what in ("tasks", "actors", "groups", "gangs", "queues"):
        assert any(getattr(one, what) for one in options)
