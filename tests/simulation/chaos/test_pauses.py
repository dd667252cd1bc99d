"""Pauses alone do no harm: no node is declared dead, and no running work is lost."""

from __future__ import annotations

import msgspec
import pytest

from phalanx.head.nodes import liveness
from phalanx.model.own_time import OwnTime
from phalanx_research.chaos.broken import Broken
from phalanx_research.chaos.kernel import Kernel
from phalanx_research.chaos.options import draw
from phalanx_research.chaos.world import World

SEEDS = (2, 5, 23)


def pauses_alone(seed):
    """Run the world of a seed, with frequent pauses as the only faults; return the world."""
    options = draw(Kernel(str(seed)))
    world = World(
        seed, msgspec.structs.replace(options, faults=("pause",), fault_every_s=0.7, quiet_s=0.0)
    )
    world.run()
    return world


@pytest.mark.parametrize("seed", SEEDS)
def test_pauses_alone_end_no_node(seed):
    world = pauses_alone(seed)
    assert world.faults.counts["pause"]
    assert not world.history.dead_nodes


def test_with_the_time_of_the_machine_they_would(monkeypatch):
    """If a head used the machine's time, it would declare nodes dead after a pause, before it has
    read their messages.
    """
    monkeypatch.setattr(liveness, "LATE_S", float("inf"))
    monkeypatch.setattr(OwnTime, "__call__", lambda self: self._clock())
    ended = set()
    for seed in SEEDS:
        try:
            ended |= pauses_alone(seed).history.dead_nodes
        except Broken:
            ended.add("a promise")
        if ended:
            return
    pytest.fail("no seed noticed")
