"""The classic policies: small days with results computed by hand, and larger days compared with the
direct implementation of the rules.
"""

from __future__ import annotations

import pytest
from tests.simulation.timed import published
from tests.simulation.timed.days import day, training_day

from phalanx_research.timed import CLASSIC, PUBLISHED, Result, Rules, classic, machine, simulate

AT_ONCE = Rules(period_s=0.0)
ANEW = Rules(period_s=0.0, anew=True)
EIGHT = [machine("n0", cpu=64, gpus=8)]
ONE = [machine("n0", cpu=64, gpus=1)]

FOUR_JOBS = """
    a   0  100  1x4
    b  10   20  1x4
    c  20   30  1x8
    d  30    5  1x1
"""
"""Jobs for eight GPUs, of which c needs all."""


def finishes(result: Result) -> dict[str, float | None]:
    return {job.name: job.finish_s for job in result.jobs}


def stops(result: Result) -> dict[str, int]:
    return {job.name: job.preemptions for job in result.jobs if job.preemptions}


@pytest.mark.parametrize(
    ("policy", "rules", "finish", "stopped"),
    [
        # c gets the node when a is through; d fits beside a.
        ("fifo", AT_ONCE, {"a": 100, "b": 30, "c": 130, "d": 35}, {}),
        ("sjf", AT_ONCE, {"a": 100, "b": 30, "c": 130, "d": 35}, {}),
        # At 20: b has 10 left, c 30, a 80; c fits beside neither. At 35 c's 30 beat a's 65.
        ("srtf", AT_ONCE, {"a": 130, "b": 30, "c": 65, "d": 35}, {"a": 1}),
        ("srtf", ANEW, {"a": 130, "b": 30, "c": 65, "d": 35}, {"a": 1}),
        # At 35 c has 30 x 8 = 240 left, a 65 x 4 = 260.
        ("srsf", AT_ONCE, {"a": 130, "b": 30, "c": 65, "d": 35}, {"a": 1}),
        ("srsf", ANEW, {"a": 130, "b": 30, "c": 65, "d": 35}, {"a": 1}),
        # Nobody attains 3,250 GPU-seconds, and who runs stays.
        ("tiresias", AT_ONCE, {"a": 100, "b": 30, "c": 130, "d": 35}, {}),
        ("tiresias", ANEW, {"a": 100, "b": 30, "c": 130, "d": 35}, {}),
    ],
)
def test_four_jobs(
    policy: str, rules: Rules, finish: dict[str, float], stopped: dict[str, int]
) -> None:
    result = simulate(day(FOUR_JOBS), EIGHT, config=classic(policy, anew=rules.anew), rules=rules)
    assert finishes(result) == finish
    assert stops(result) == stopped


def test_service_decides_between_few_and_many_gpus() -> None:
    """At 2 s, w has 8 s left on 8 GPUs, x 40 s on 8, y 50 s on 1. So y comes last by remaining
    time, and first by remaining service.
    """
    text = "w 0 10 1x8\nx 1 40 1x8\ny 2 50 1x1"
    by_time = simulate(day(text), EIGHT, config=classic("srtf"), rules=AT_ONCE)
    by_service = simulate(day(text), EIGHT, config=classic("srsf"), rules=AT_ONCE)
    assert finishes(by_time) == {"w": 10, "x": 50, "y": 100}
    assert finishes(by_service) == {"w": 60, "x": 100, "y": 52}


def test_service_queues_let_the_young_pass() -> None:
    """a falls to the lower queue at 3,250, and b runs before a. c arrives at 3,300 and runs before
    a, until c falls at 6,550 and comes behind a. a falls again at 10,460 with 7,200 s of service,
    and c ends before a.
    """
    text = "a 0 10000 1x1\nb 100 10 1x1\nc 3300 4000 1x1"
    for rules in (AT_ONCE, ANEW):
        config = classic("tiresias", anew=rules.anew)
        result = simulate(day(text), ONE, config=config, rules=rules)
        assert finishes(result) == {"a": 14010, "b": 3260, "c": 11210}
        assert stops(result) == {"a": 3, "c": 1}


def test_shortest_of_those_that_wait() -> None:
    text = "a 0 50 1x1\nb 1 30 1x1\nc 2 20 1x1"
    result = simulate(day(text), ONE, config=classic("sjf"), rules=AT_ONCE)
    assert finishes(result) == {"a": 50, "b": 100, "c": 70}


def test_published_rules_cost_every_running_job_at_every_event() -> None:
    """Each event costs every running job its overhead. a loses 2 s at 10 (b arrives) and at 15 (b
    ends), and none at its own end.
    """
    text = "a 0 100 1x1 overhead_s=2\nb 10 5 1x1 overhead_s=1"
    result = simulate(day(text), EIGHT, config=classic("srtf", anew=True), rules=PUBLISHED)
    assert finishes(result) == {"a": 104, "b": 15}


@pytest.mark.parametrize("policy", ["srtf", "srsf", "tiresias"])
@pytest.mark.parametrize("seed", [1, 2])
def test_as_the_published_rules_say(policy: str, seed: int) -> None:
    jobs = training_day(seed, 80)
    want = published.run(jobs, 8, 8, policy)
    nodes = [machine(f"n{i}", cpu=64, gpus=8) for i in range(8)]
    if policy == "tiresias":
        nodes = [machine("pool", cpu=512, gpus=64)]
    result = simulate(jobs, nodes, config=classic(policy, anew=True), rules=PUBLISHED)
    assert {j.name: j.preemptions for j in result.jobs} == {name: w[1] for name, w in want.items()}
    assert finishes(result) == pytest.approx({name: w[0] for name, w in want.items()})
    assert result.measures.preemptions > 20


def test_names() -> None:
    assert [classic(name).plugin_names()[0] for name in CLASSIC] == list(CLASSIC)
    with pytest.raises(KeyError):
        classic("lottery")
