"""The choice of a node by estimated waiting time. Several nodes choose without knowing of each
other's choices.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from phalanx.protocol.cluster_messages import ViewRow
from phalanx.scheduler.devices.sets import ResourceSet
from phalanx.scheduler.placement.cluster_nodes import ClusterNodes
from phalanx.scheduler.placement.outcome import Placed
from phalanx.scheduler.placement.request_class import Request
from phalanx.scheduler.placement.strategy import Asking

CPU = Request(resources=ResourceSet.from_mapping({"CPU": 1}))


def row(name, free=0.0, queue=0, run_s=1.0, bandwidth=0.0, total=4.0, state="ALIVE"):
    return ViewRow(
        node_id=name,
        prefix=name.encode(),
        host="h",
        port=1,
        state=state,
        total={"CPU": total},
        available={"CPU": free},
        labels={},
        queue_length=queue,
        run_s=run_s,
        bandwidth=bandwidth,
    )


def cluster(*rows):
    nodes = ClusterNodes()
    for one in rows:
        nodes.put(one)
    return nodes


MB = 1_000_000
CASES = {
    "the shortest queue": ([row("a", queue=3), row("b", queue=2)], Asking(), "b"),
    "short tasks": ([row("a", queue=3, run_s=0.1), row("b", queue=1)], Asking(), "a"),
    "room before a busy one with the same wait": ([row("a"), row("b", free=1)], Asking(), "b"),
    "only who can ever": ([row("a", total=0.5), row("b", queue=9)], Asking(), "b"),
    "nobody draining": ([row("a", free=4, state="DRAINING"), row("b", queue=9)], Asking(), "b"),
    "arguments are there": (
        [row("a", free=1, bandwidth=MB), row("b", free=1, bandwidth=MB)],
        Asking(argument_bytes=5 * MB, held_bytes={"b": 5 * MB}),
        "b",
    ),
    "waiting costs less than fetching": (
        [row("a", free=1, bandwidth=MB), row("b", queue=2, bandwidth=MB)],
        Asking(argument_bytes=5 * MB, held_bytes={"b": 5 * MB}),
        "b",
    ),
    "fetching costs less than waiting": (
        [row("a", free=1, bandwidth=MB), row("b", queue=9, bandwidth=MB)],
        Asking(argument_bytes=5 * MB, held_bytes={"b": 5 * MB}),
        "a",
    ),
    "a slow line": (
        [row("a", free=1, bandwidth=MB), row("b", free=1, bandwidth=9 * MB)],
        Asking(argument_bytes=5 * MB),
        "b",
    ),
    "not the one that passes it on": (
        [row("a", free=4), row("b", queue=9)],
        Asking(local="a", avoid_local=True),
        "b",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_the_least_wait(name) -> None:
    rows, asking, node = CASES[name]
    outcome = cluster(*rows).pick_least_wait(CPU, asking)
    assert isinstance(outcome, Placed)
    assert outcome.node == node


def test_a_no_says_why() -> None:
    outcome = cluster(row("a", total=0.5)).pick_least_wait(CPU)
    assert str(outcome) == "infeasible: 1 node with at most 0.5 CPU in total, 1 asked"


def placed(nodes: ClusterNodes) -> Placed:
    outcome = nodes.pick_least_wait(CPU)
    assert isinstance(outcome, Placed)
    return outcome


def test_several_copies_spread_by_what_each_sent() -> None:
    copies = [cluster(row("a", free=2), row("b", free=2), row("c")) for _ in range(2)]
    for nodes in copies:
        picks = []
        for _ in range(7):
            outcome = placed(nodes)
            nodes.count_in(outcome.node, CPU.resources, outcome.is_available)
            picks.append(outcome.node)
        assert picks == ["a", "a", "b", "b", "a", "b", "c"]
        for reported in (row("a", free=2), row("b", free=2), row("c")):
            nodes.put(reported)  # what nodes report goes before what was counted in
        assert placed(nodes).node == "a"


def test_nodes_that_are_gone_are_not_chosen() -> None:
    nodes = cluster(row("a", free=4), row("b", queue=1))
    nodes.count_in("a", CPU.resources, True)
    assert nodes.put(row("a", state="DEAD")) is True
    assert nodes.put(row("a", state="DEAD")) is False
    assert placed(nodes).node == "b"


ROWS = st.lists(
    st.tuples(
        st.sampled_from([0.0, 1.0, 4.0]),
        st.integers(0, 5),
        st.sampled_from([0.0, 0.5, 2.0]),
        st.sampled_from([0.0, MB, 10 * MB]),
        st.sampled_from([0.5, 4.0]),
    ),
    max_size=6,
)


@given(ROWS, st.integers(0, 5 * MB), st.dictionaries(st.sampled_from("abcdef"), st.just(2 * MB)))
def test_no_feasible_node_would_wait_less(rows, size, held) -> None:
    nodes = cluster(
        *(
            row(name, free=min(free, total), queue=q, run_s=run_s, bandwidth=b, total=total)
            for name, (free, q, run_s, b, total) in zip("abcdef", rows, strict=False)
        )
    )
    asking = Asking(argument_bytes=size, held_bytes=held)
    outcome = nodes.pick_least_wait(CPU, asking)
    feasible = [n.id for n in nodes.view.nodes.states if CPU.resources <= n.total]
    waits = {name: nodes.waiting.estimate_s(name, asking) for name in feasible}
    if not feasible:
        assert not isinstance(outcome, Placed)
        return
    assert isinstance(outcome, Placed)
    assert waits[outcome.node] == pytest.approx(min(waits.values()))
    free = {n.id for n in nodes.view.nodes.states if CPU.resources <= n.available}
    ties = [name for name in feasible if waits[name] == waits[outcome.node]]
    assert outcome.node in free or not free & set(ties)
