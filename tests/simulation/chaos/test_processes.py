"""Only a node's process ends: commands of jobs continue, and the node's next process takes them
over.
"""

from __future__ import annotations

import msgspec
import pytest

from phalanx.node import taking_over
from phalanx.node.kept_members import BEGIN, Decision
from phalanx_research.chaos.broken import Broken
from phalanx_research.chaos.kernel import Kernel
from phalanx_research.chaos.options import PROCESS, draw
from phalanx_research.chaos.world import World

SEED = 1


def ends_of_processes_alone() -> World:
    """Return the world of a seed with many jobs, in which the only faults are ends of nodes'
    processes.
    """
    options = draw(Kernel(str(SEED)))
    only = {"tasks": 0, "actors": 0, "jobs": 12, "drivers": 3, "quiet_s": 0.0}
    faults = {"faults": (PROCESS,), "fault_every_s": 2.5}
    return World(SEED, msgspec.structs.replace(options, **only, **faults))


def test_commands_are_taken_over() -> None:
    world = ends_of_processes_alone()
    world.run()
    assert world.faults.counts[PROCESS]
    assert world.history.counts["commands taken over"]


def test_a_process_that_forgets_what_runs_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        taking_over, "decide", lambda members, states: [Decision(one, BEGIN) for one in members]
    )
    with pytest.raises(Broken):
        ends_of_processes_alone().run()
