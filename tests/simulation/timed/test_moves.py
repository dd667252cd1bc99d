"""Simulated jobs that are moved: a waiting gang starts immediately, and a moved job loses nothing
except its place.
"""

from __future__ import annotations

import pytest

from phalanx.scheduler.cycle.config import Configuration, parse_volcano
from phalanx.scheduler.cycle.registry import known_plugins
from phalanx.scheduler.cycle.specs import Shape
from phalanx_research.timed import Job, Part, Rules, machine, simulate
from phalanx_research.timed.workload import GPU

RULES = """
actions: "allocate{}"
tiers:
- plugins:
  - name: priority
  - name: gang
- plugins:
  - name: gpu-sharing
  - name: predicates
  - name: nodeorder
"""


def rules(more: str = "") -> Configuration:
    return parse_volcano(RULES.format(more), known_plugins())


def job(name: str, submit_s: float, gpus: float, work_s: float, *, movable: bool = True) -> Job:
    shape = Shape(request=(("cpu", 1.0), (GPU, gpus)))
    return Job(
        name=name,
        submit_s=submit_s,
        work_s=work_s,
        parts=(Part(shape=shape),),
        annotations=(("phalanx/movable", "10m"),) if movable else (),
    )


@pytest.mark.parametrize(("more", "start_s", "moved"), [("", 5000, 0), (", consolidate", 1000, 1)])
def test_a_job_for_a_whole_node_starts_at_once_if_others_move(
    more: str, start_s: float, moved: int
) -> None:
    work = [job("a", 0, 0.5, 5000), job("b", 1, 0.5, 5000), job("whole", 900, 2.0, 100)]
    work.append(job("tick", 1000, 0.25, 1))
    found = simulate(
        work,
        [machine("n0", cpu=8, gpus=2), machine("n1", cpu=8, gpus=2)],
        config=rules(more),
        rules=Rules(period_s=0.0),
    )
    of = {one.name: one for one in found.jobs}
    assert of["whole"].start_s == pytest.approx(start_s, abs=2)
    assert of["a"].preemptions + of["b"].preemptions == moved
    assert max(of["a"].finish_s or 0, of["b"].finish_s or 0) == pytest.approx(5001, abs=1)
