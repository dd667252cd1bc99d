"""Plans of changed snapshots, compared with the plan of the unchanged one."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from tests.unit.scheduler.forecast.drawn import drawn_snapshot, keeping

from phalanx.scheduler.cycle.specs import (
    HyperNodeSpec,
    NodeSpec,
    PodGroupSpec,
    QueueSpec,
    Shape,
    Snapshot,
    TaskSpec,
)
from phalanx.scheduler.forecast.run_times import LearntRunTimes, with_past_runs
from phalanx.scheduler.forecast.what_if import (
    HOSTNAME,
    MOST_NODES,
    Comparison,
    Submission,
    compare,
    with_nodes,
    with_nodes_of,
    with_weight,
    without_nodes,
)

GPUS = "nvidia.com/gpu"


def node(name: str) -> NodeSpec:
    capacity = (("cpu", 32.0), (GPUS, 8.0), ("pods", 100.0))
    return NodeSpec(name=name, capacity=capacity, labels=((HOSTNAME, f"host-{name}"),))


def podgroup(name: str, run_time_s: float | None, runs: bool = False) -> PodGroupSpec:
    phase, started = ("Running", 100.0) if runs else ("Pending", None)
    return PodGroupSpec(
        name=name, queue="q", min_member=1, run_time_s=run_time_s, phase=phase, started=started
    )


def task(name: str, gpus: float, where: str = "") -> TaskSpec:
    shape = Shape(request=(("cpu", 1.0), (GPUS, gpus)))
    phase = "Running" if where else "Pending"
    return TaskSpec(name=f"{name}-0", podgroup=name, shape=shape, node=where, phase=phase)


def snapshot() -> Snapshot:
    """Return one node that is taken for a minute, and two gangs that wait for it one after the
    other.
    """
    return Snapshot(
        config=keeping(),
        now=100.0,
        nodes=(node("one"),),
        hypernodes=(HyperNodeSpec(name="rack", tier=1, nodes=("one",)),),
        queues=(QueueSpec(name="q"),),
        podgroups=(podgroup("r", 60.0, runs=True), podgroup("a", 30.0), podgroup("b", 30.0)),
        tasks=(task("r", 8, "one"), task("a", 8), task("b", 8)),
    )


def starts(found: Comparison) -> dict[str, tuple[float | None, float | None]]:
    return {one.podgroup.partition("/")[2]: (one.before_s, one.after_s) for one in found.starts}


def test_another_node_lets_the_first_start_now_and_the_next_sooner() -> None:
    now = snapshot()
    for more in (with_nodes(now, 1, "one"), with_nodes_of(now, 1, node("x").capacity)):
        found = compare(now, more)
        assert starts(found) == {"a": (60.0, 0.0), "b": (90.0, 30.0)}
        assert [one.gain_s for one in found.starts] == [60.0, 60.0]


def test_two_more_nodes_have_names_of_their_own_and_no_host_of_another() -> None:
    more = with_nodes(with_nodes(snapshot(), 1, "host-one"), 2, "on")
    assert [one.name for one in more.nodes] == ["one", "new-1", "new-2", "new-3"]
    assert [dict(one.labels).get(HOSTNAME) for one in more.nodes] == ["host-one", None, None, None]


def test_a_node_less_stops_what_runs_there() -> None:
    now = snapshot()
    two = with_nodes(now, 1, "one")
    found = compare(two, without_nodes(two, ["one"]))
    assert found.stopped == ("default/r",)
    assert starts(found)["r"][0] is None, "it ran"
    assert sorted(after or 0.0 for _, after in starts(found).values()) == [0.0, 30.0, 60.0]
    assert without_nodes(now, ["host-one"]).hypernodes[0].nodes == ()
    assert starts(compare(now, without_nodes(now, ["one"])))["a"] == (60.0, None)


def test_what_is_submitted_waits_behind_the_others() -> None:
    now = snapshot()
    new = Submission(podgroup=podgroup("c", 10.0), tasks=(task("c", 8),))
    found = compare(now, now, [new])
    assert [(one.podgroup, one.is_new) for one in found.starts][-1] == ("default/c", True)
    assert starts(found)["c"] == (None, 120.0)
    assert starts(found)["a"] == (60.0, 60.0)


def test_another_weight_is_another_queue() -> None:
    assert with_weight(snapshot(), "q", 7).queues[0].weight == 7


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (lambda s: with_nodes(s, 1, "two"), "there is no node 'two'; known: one"),
        (lambda s: with_nodes(s, 1, ""), "there is no node ''"),
        (lambda s: with_nodes(s, 0, "one"), "1 to 10,000 nodes can be added, not 0"),
        (lambda s: with_nodes(s, MOST_NODES + 1, "one"), "not 10,001"),
        (lambda s: with_weight(s, "z", 1), "there is no queue 'z'; known: q"),
        (lambda s: with_weight(s, "q", 0), "at least 1, not 0"),
        (
            lambda s: without_nodes(with_nodes(with_nodes(s, 1, "one"), 1, "one"), ["new-"]),
            "'new-' matches 2 nodes",
        ),
    ],
)
def test_a_change_that_cannot_be_is_refused(
    change: Callable[[Snapshot], Snapshot], complaint: str
) -> None:
    with pytest.raises(ValueError, match=complaint):
        change(snapshot())


@pytest.mark.parametrize("seed", range(20))
def test_nothing_changes_where_nothing_is_changed(seed: int) -> None:
    now = drawn_snapshot(random.Random(seed))
    assert all(one.before_s == one.after_s for one in compare(now, now).starts)


def test_past_runs_are_told_where_a_job_tells_no_limit() -> None:
    learnt = LearntRunTimes(lambda group: group.name.encode())
    for seconds in range(1, 11):
        learnt.add(b"r", 10.0 * seconds)
        learnt.add(b"a", 10.0 * seconds)
    now = snapshot()
    silent = Snapshot(
        config=now.config,
        now=155.0,
        podgroups=(podgroup("r", None, runs=True), podgroup("a", None), podgroup("b", None)),
    )
    told = with_past_runs(silent, learnt).podgroups
    assert [one.run_time_s for one in told] == [100.0, 100.0, None]
    assert with_past_runs(now, learnt) == now, "limits count"
