"""The same seed gives the same day and the same result, in any process and under any hash seed.
Some rules must hold in every day.
"""

from __future__ import annotations

import os
import subprocess
import sys

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.effort import examples
from tests.simulation.timed.days import training_day

from phalanx.scheduler.cycle.config import CHART_YAML, Configuration, parse_volcano
from phalanx.scheduler.cycle.registry import known_plugins
from phalanx.scheduler.cycle.specs import QueueSpec
from phalanx_research.timed import (
    CLASSIC,
    Job,
    Result,
    Rules,
    classic,
    machine,
    simulate,
    synthetic,
)
from phalanx_research.timed.benchmark import run

CHART = parse_volcano(CHART_YAML, known_plugins())
EVICTING = parse_volcano(
    """
actions: "enqueue, allocate, preempt, reclaim, backfill"
tiers:
- plugins:
  - name: priority
  - name: gang
    enablePreemptable: false
- plugins:
  - name: drf
    enablePreemptable: false
  - name: predicates
  - name: proportion
  - name: nodeorder
""",
    known_plugins(),
)
PROGRAM = """
import sys, msgspec
from phalanx.scheduler.cycle.config import CHART_YAML, parse_volcano
from phalanx.scheduler.cycle.registry import known_plugins
from phalanx_research.timed import Rules, simulate, synthetic
result = simulate(
    synthetic.jobs(600, 20, 7), synthetic.machines(20), queues=synthetic.queues(),
    config=parse_volcano(CHART_YAML, known_plugins()), rules=Rules(period_s=60),
)
sys.stdout.buffer.write(msgspec.json.encode(result))
"""


def test_same_seed_same_result_in_another_process() -> None:
    texts = [
        subprocess.run(
            [sys.executable, "-c", PROGRAM],
            env=os.environ | {"PYTHONHASHSEED": seed},
            check=True,
            capture_output=True,
        ).stdout
        for seed in ("1", "2")
    ]
    assert texts[0] == texts[1]
    assert msgspec.json.decode(texts[0], type=Result).measures.finished > 50


def test_seeds_differ() -> None:
    assert synthetic.jobs(200, 10, 1) == synthetic.jobs(200, 10, 1)
    assert synthetic.jobs(200, 10, 1) != synthetic.jobs(200, 10, 2)


def test_the_synthetic_day_is_as_said() -> None:
    jobs = synthetic.jobs(20_000, 200, 3)
    tasks = [(job.size, job.work_s, job.amount("nvidia.com/gpu")) for job in jobs]
    assert sum(size for size, _, _ in tasks) == 20_000
    assert 0.37 < sum(size for size, _, gpus in tasks if gpus) / 20_000 < 0.43
    wanted = sum(work * gpus for _, work, gpus in tasks) / (800 * synthetic.DAY_S)
    assert 0.55 < wanted < 0.8
    noon = sum(6 <= job.submit_s / 3600 < 18 for job in jobs)
    assert noon > 1.3 * (len(jobs) - noon)


def test_benchmark_rows_grow() -> None:
    ticks = iter(range(1_000_000))
    rows = run(lambda: float(next(ticks)), sizes=((200, 10), (400, 20)))
    assert [(row["tasks"], row["nodes"]) for row in rows] == [(200, 10), (400, 20)]
    assert all(row["seconds"] > 0 and row["finished"] > 0 for row in rows)


@st.composite
def worlds(draw: st.DrawFn) -> tuple[list[Job], Configuration, Rules]:
    jobs = training_day(draw(st.integers(0, 10_000)), draw(st.integers(1, 12)), spread_s=2_000)
    mixed = [
        msgspec.structs.replace(
            job,
            queue=draw(st.sampled_from("pq")),
            priority=draw(st.integers(0, 2)),
            min_tasks=draw(st.sampled_from((None, 1))),
        )
        for job in jobs
    ]
    anew = draw(st.booleans())
    config = draw(
        st.sampled_from([*(classic(name, anew=anew) for name in CLASSIC), CHART, EVICTING])
    )
    rules = Rules(
        period_s=draw(st.sampled_from((1.0, 30.0))),
        preempted=draw(st.sampled_from(("checkpoint", "lost"))),
        anew=anew and config not in (CHART, EVICTING),
    )
    return mixed, config, rules


@settings(max_examples=examples(20))
@given(worlds())
def test_what_always_holds(world: tuple[list[Job], Configuration, Rules]) -> None:
    """The loop itself asserts after every cycle that no node holds more than it has, and at every
    start that a gang has its minimum."""
    jobs, config, rules = world
    nodes = [machine(f"n{i}", cpu=64, gpus=8) for i in range(4)]
    result = simulate(
        jobs, nodes, config=config, rules=rules,
        queues=(QueueSpec(name="p"), QueueSpec(name="q", weight=2)), until_s=3_000_000,
    )  # fmt: skip
    series, measures = result.series, result.measures
    assert max(series.allocated) <= 32
    assert min(series.allocated) >= 0
    assert measures.utilisation_pct <= measures.allocation_pct + 1e-6
    assert measures.allocation_pct <= 100 + 1e-6
    for job in result.jobs:
        if job.start_s is not None:
            assert job.start_s >= job.submit_s
        if job.finish_s is not None:
            assert job.start_s is not None
            assert job.finish_s - job.start_s >= job.work_s - 1e-6
            if not job.preemptions and job.tasks == 1:
                assert job.finish_s - job.start_s == pytest.approx(
                    job.work_s + next(j.overhead_s for j in jobs if j.name == job.name)
                )
    if measures.finished == measures.jobs:
        worked = sum(job.work_s * job.gpus for job in result.jobs)
        assert measures.utilisation_pct == pytest.approx(100 * worked / (32 * measures.makespan_s))
        assert series.allocated[-1] == 0
