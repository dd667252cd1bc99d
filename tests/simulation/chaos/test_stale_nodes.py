"""Nodes that are stopped for longer than the head waits begin no work when they continue."""

from __future__ import annotations

import msgspec
import pytest

from phalanx.node.standing import Standing
from phalanx_research.chaos.broken import Broken
from phalanx_research.chaos.kernel import Kernel
from phalanx_research.chaos.options import draw
from phalanx_research.chaos.world import World

SEEDS = (6, pytest.param(26, marks=pytest.mark.slow))


def long_pauses(seed: int) -> World:
    """Return the world of a seed with many jobs, in which machines stop for a while and connections
    hang.
    """
    options = msgspec.structs.replace(
        draw(Kernel(str(seed))),
        faults=("freeze", "partition", "slow"),
        fault_every_s=0.7,
        quiet_s=0.0,
        chaos_s=12.0,
        tasks=0,
        actors=5,
        jobs=8,
        sweeps=3,
    )
    return World(seed, options)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_node_that_the_head_gave_up_begins_no_member(seed: int) -> None:
    world = long_pauses(seed)
    world.run()
    assert world.history.dead_nodes


def test_without_its_lease_it_would(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Standing, "is_sure", lambda self: True)
    with pytest.raises(Broken, match="which the head has declared dead"):
        long_pauses(6).run()
