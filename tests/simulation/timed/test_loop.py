"""How virtual time passes: starts, stops, gangs, timers, and what is recorded."""

from __future__ import annotations

import math

import msgspec
import pytest
from tests.simulation.timed.days import day

from phalanx.head.gangs.cycles import Pace
from phalanx.scheduler.cycle.config import parse_volcano
from phalanx.scheduler.cycle.registry import known_plugins
from phalanx.scheduler.cycle.specs import QueueSpec
from phalanx_research.timed import (
    Progress,
    Result,
    Rules,
    WorkloadError,
    classic,
    machine,
    simulate,
)

AT_ONCE = Rules(period_s=0.0)
TWO = [machine(f"n{i}", cpu=64, gpus=4) for i in range(2)]
URGENT = parse_volcano(
    """
actions: "allocate, preempt"
tiers:
- plugins:
  - name: priority
  - name: gang
    enablePreemptable: false
- plugins:
  - name: predicates
""",
    known_plugins(),
)


def lives(result: Result) -> dict[str, tuple[float | None, float | None]]:
    return {job.name: (job.start_s, job.finish_s) for job in result.jobs}


def test_cycles_keep_their_period() -> None:
    """Cycles run at 0, 10 and 20: a arrives at 3 and waits until 10, b arrives at 12 and waits
    until 20.
    """
    text = "x 0 1 1x1\na 3 5 1x1\nb 12 5 1x1"
    result = simulate(day(text), TWO, config=classic("fifo"), rules=Rules(period_s=10))
    assert lives(result) == {"x": (0, 1), "a": (10, 15), "b": (20, 25)}
    assert result.measures.delay_mean_s == pytest.approx((0 + 7 + 8) / 3)


def test_gangs_start_together() -> None:
    """g needs 6 of 8 GPUs as three tasks of two. None of its tasks starts while a and b run."""
    text = "a 0 10 1x4\nb 0 20 1x1\ng 1 5 3x2"
    result = simulate(day(text), TWO, config=classic("fifo"), rules=AT_ONCE)
    assert lives(result)["g"] == (10, 15)


def test_tasks_above_the_minimum_follow_when_there_is_room() -> None:
    """Two of the four tasks of a job start at 0 beside a, the other two at 10."""
    text = "a 0 10 1x4\ng 0 30 4x2 min_tasks=2"
    result = simulate(day(text), TWO, config=classic("fifo"), rules=AT_ONCE)
    assert lives(result)["g"] == (0, 40)
    assert result.series.allocated == (8.0, 8.0, 4.0, 0.0)


@pytest.mark.parametrize(
    ("preempted", "overhead_s", "finish"),
    [
        ("checkpoint", 0, 120.0),  # 40 s done, 20 s away, 60 s left
        ("lost", 0, 160.0),
        ("checkpoint", 5, 130.0),  # pays 5 s at each of two starts
        ("lost", 5, 165.0),
    ],
)
def test_preemption(preempted: str, overhead_s: float, finish: float) -> None:
    rules = msgspec.structs.replace(AT_ONCE, preempted=preempted)
    text = f"low 0 100 2x4 overhead_s={overhead_s}\nhigh 40 20 1x4 priority=1"
    result = simulate(day(text), TWO, config=URGENT, rules=rules)
    assert lives(result) == {"low": (0, finish), "high": (40, 60)}
    assert result.measures.preemptions == 1
    useful = 100 * 8 + 20 * 4
    assert result.measures.utilisation_pct == pytest.approx(100 * useful / (8 * finish))


def test_at_the_heads_pace_only_who_has_a_right_to_it_takes_room() -> None:
    """A job with less remaining work does not evict another job, but a job of a higher priority
    does. Eviction and start take two cycles, which at the head's pace are a moment apart.
    """
    rules = Rules(pace=Pace())
    text = "a 0 100 2x4\nb 40 20 1x4"
    assert lives(simulate(day(text), TWO, config=classic("srtf"), rules=rules)) == {
        "a": (0, 100), "b": (100, 120),
    }  # fmt: skip
    text = "low 0 100 2x4\nhigh 40 20 1x4 priority=1"
    result = simulate(day(text), TWO, config=URGENT, rules=rules)
    found = {job.name: (job.start_s, job.finish_s) for job in result.jobs}
    assert found["high"] == pytest.approx((40 + Pace().pause_s, 60 + Pace().pause_s))
    assert found["low"] == pytest.approx((0, 120 + Pace().pause_s))


def test_the_queue_for_which_room_was_made_comes_first() -> None:
    """h evicts l of its own queue q. The freed GPUs go to h, although queue p comes first and its
    job m waits.
    """
    queues = (QueueSpec(name="p"), QueueSpec(name="q"))
    text = "l 0 100 1x8 queue=q\nm 1 90 1x8 queue=p\nh 2 5 1x8 queue=q"
    nodes = [machine("n", cpu=8, gpus=8)]
    result = simulate(day(text), nodes, config=classic("srtf"), queues=queues, rules=AT_ONCE)
    assert lives(result)["h"] == (2, 7)


def test_a_broken_gang_frees_all_of_its_room() -> None:
    """One of low's two tasks is evicted. d needs the node of the other task, and starts together
    with high.
    """
    text = "low 0 100 2x4\nhigh 40 20 1x4 priority=1\nd 41 5 1x4"
    result = simulate(day(text), TWO, config=URGENT, rules=AT_ONCE)
    assert lives(result)["d"] == (41, 46)


def test_time_alone_can_be_a_reason() -> None:
    """Nothing happens at the moment when b has waited for as long as sla allows, so only a timer
    can start the cycle.
    """
    config = parse_volcano(
        """
actions: "enqueue, allocate"
tiers:
- plugins:
  - name: fifo
  - name: gang
- plugins:
  - name: predicates
""",
        known_plugins(),
    )
    told: list[Progress] = []
    text = "a 0 100 2x4\nb 10 5 1x1"
    simulate(day(text), TWO, config=config, rules=AT_ONCE, progress=told.append)
    assert [p.now_s for p in told] == [0, 10, 100, 105]
    told.clear()
    rules = Rules(period_s=0, tick_s=40)
    simulate(day(text), TWO, config=config, rules=rules, progress=told.append)
    assert [p.now_s for p in told] == [0, 10, 50, 90, 100, 105]
    assert (told[-1].submitted, told[-1].finished, told[-1].jobs) == (2, 2, 2)


def test_what_never_fits_is_left_over() -> None:
    result = simulate(day("a 0 10 1x5\nb 0 10 1x4"), TWO, config=classic("fifo"), rules=AT_ONCE)
    assert lives(result) == {"a": (None, None), "b": (0, 10)}
    assert result.measures.never_started == 1
    assert result.measures.makespan_s == 10


def test_ends_when_told() -> None:
    text = "a 0 100 1x4\nb 0 10 1x4"
    result = simulate(day(text), TWO, config=classic("fifo"), rules=AT_ONCE, until_s=50)
    assert lives(result) == {"a": (0, None), "b": (0, 10)}
    assert result.measures.makespan_s == 50
    assert result.measures.allocation_pct == pytest.approx(100 * (50 * 4 + 10 * 4) / (50 * 8))
    assert result.measures.utilisation_pct == pytest.approx(result.measures.allocation_pct)


def test_measures() -> None:
    queues = (QueueSpec(name="p", weight=2), QueueSpec(name="q"))
    text = "a 0 10 1x8 queue=p\nb 0 30 1x8 queue=q\nc 5 10 1x8 queue=q"
    nodes = [machine("n", cpu=8, gpus=8)]
    ticks = iter(range(100))
    result = simulate(
        day(text), nodes, config=classic("fifo"), queues=queues, rules=AT_ONCE, name="hand",
        clock=lambda: float(next(ticks)),
    )  # fmt: skip
    m = result.measures
    assert lives(result) == {"a": (0, 10), "b": (10, 40), "c": (40, 50)}
    assert (m.jct_mean_s, m.jct_p50_s, m.jct_p99_s) == pytest.approx(((10 + 40 + 45) / 3, 40, 45))
    assert (m.allocation_pct, m.utilisation_pct, m.makespan_s) == (100, 100, 50)
    assert [q.share_pct for q in result.queues] == [pytest.approx(20), pytest.approx(80)]
    p, q = 1.0, (40 / 30 + 45 / 10) / 2
    assert [row.slowdown_mean for row in result.queues] == [pytest.approx(p), pytest.approx(q)]
    assert m.fairness == pytest.approx((p + q) ** 2 / (2 * (p * p + q * q)))
    assert m.decisions == 3
    assert m.decisions_per_s == pytest.approx(3 / m.cycles)
    assert result.name == "hand"
    assert result.series.waiting_jobs == (1, 2, 1, 0, 0)


def test_fragments() -> None:
    """All tasks ask for 4 GPUs or for 1. If 1 of 4 GPUs is taken, the other 3 are fragmented for
    the tasks that ask for 4.
    """
    nodes = [machine("n", cpu=8, gpus=4)]
    result = simulate(day("a 0 10 1x1\nb 10 5 1x4"), nodes, config=classic("fifo"), rules=AT_ONCE)
    assert result.series.fragmented_pct == pytest.approx((100 * 3 / 4 / 2, 0.0, 0.0))
    assert result.measures.fragmented_pct == pytest.approx(37.5 * 10 / 15)


def test_no_jobs() -> None:
    result = simulate([], TWO, config=classic("fifo"))
    assert result.jobs == ()
    assert result.measures.makespan_s == 0


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("a -1 5 1x1", "job a: submit_s must be a time of 0 s or more, not -1"),
        ("a 0 nan 1x1", "job a: work_s must be a time of 0 s or more, not nan"),
        ("a 0 5 1x-1", "job a: a request of nvidia.com/gpu must be 0 or more, not -1"),
        ("a 0 5 1x1 queue=nobody", "job a: there is no queue 'nobody'; there are default"),
        ("a 0 5 1x1\na 1 5 1x1", "two jobs are named 'a'"),
        (
            "a 0 5 1x1 min_tasks=2",
            "job a: min_tasks must be 0 to 1, the number of its tasks, not 2",
        ),
        ("a 0 5 0x1", "job a: a job needs at least one part, and each part at least one"),
    ],
)
def test_bad_workloads_are_named(text: str, says: str) -> None:
    with pytest.raises(WorkloadError) as error:
        simulate(day(text), TWO, config=classic("fifo"))
    assert says in str(error.value)


def test_machines_must_have_what_is_asked_for() -> None:
    bare = msgspec.structs.replace(TWO[0], capacity=(("cpu", 4.0),))
    with pytest.raises(WorkloadError, match=r"requests nvidia.com/gpu, which no machine has"):
        simulate(day("a 0 5 1x1"), [bare], config=classic("fifo"))
    with pytest.raises(WorkloadError, match="needs at least one machine"):
        simulate([], [], config=classic("fifo"))


def test_infinite_limit_is_the_default() -> None:
    result = simulate(day("a 1e6 1 1x1"), TWO, config=classic("fifo"), until_s=math.inf)
    assert lives(result) == {"a": (1e6, 1e6 + 1)}


BY_TREE = parse_volcano(
    """
actions: "enqueue, allocate"
tiers:
- plugins:
  - name: gang
  - name: capacity
    enableHierarchy: true
  - name: predicates
""",
    known_plugins(),
)


@pytest.mark.parametrize("roots", [(), (QueueSpec(name="root"),)])
def test_queues_form_a_tree_below_the_queue_root_as_in_a_cluster(
    roots: tuple[QueueSpec, ...],
) -> None:
    """Both jobs are limited by the quota of the queue above theirs."""
    queues = (
        *roots,
        QueueSpec(name="lab", capability=(("nvidia.com/gpu", 2),)),
        QueueSpec(name="a", parent="lab"),
        QueueSpec(name="b", parent="lab"),
    )
    text = "x 0 10 1x2 queue=a\ny 1 5 1x2 queue=b"
    result = simulate(day(text), TWO, config=BY_TREE, queues=queues, rules=AT_ONCE)
    assert lives(result) == {"x": (0, 10), "y": (10, 15)}
    assert {queue.name for queue in result.queues} == {queue.name for queue in queues}


def test_without_a_file_of_queues_there_is_a_tree_as_well() -> None:
    result = simulate(day("x 0 10 1x2"), TWO, config=BY_TREE, rules=AT_ONCE)
    assert lives(result) == {"x": (0, 10)}
