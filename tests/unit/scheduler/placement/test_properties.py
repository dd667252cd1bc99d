"""Invariants of placement for any cluster: order has no effect, more nodes never make a result
worse, and caches are right.
"""

from __future__ import annotations

import random
from collections.abc import Callable

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.effort import examples

from phalanx.scheduler.devices.quantities import SCALE
from phalanx.scheduler.devices.sets import ResourceSet
from phalanx.scheduler.placement.affinity import NodeAffinity, WithFallbacks
from phalanx.scheduler.placement.hybrid import Hybrid
from phalanx.scheduler.placement.labels import parse_selector
from phalanx.scheduler.placement.node_table import NodeState, NodeTable
from phalanx.scheduler.placement.outcome import Placed, Rejection
from phalanx.scheduler.placement.request_class import ClusterView, Request
from phalanx.scheduler.placement.selector.strategy import Selector
from phalanx.scheduler.placement.spread import RandomAvailable, Spread
from phalanx.scheduler.placement.strategy import Asking, Strategy
from phalanx.scheduler.placement.two_pass import TwoPassRandom
from phalanx.scheduler.placement.waiting_time import LeastWaiting

HALVES = st.integers(0, 8).map(lambda half: half * SCALE // 2)


@st.composite
def states(draw: st.DrawFn, name: str) -> NodeState:
    total = {"CPU": draw(HALVES), "GPU": draw(st.integers(0, 3)) * SCALE, "memory": draw(HALVES)}
    devices = tuple(
        draw(st.sampled_from([0, SCALE // 2, SCALE])) for _ in range(total["GPU"] // SCALE)
    )
    available = {
        "CPU": draw(st.integers(-SCALE, total["CPU"])),
        "GPU": sum(devices),
        "memory": draw(st.integers(0, total["memory"])),
    }
    return NodeState(
        id=name,
        total=ResourceSet(total),
        available=ResourceSet(available),
        load=ResourceSet({"CPU": draw(HALVES)}),
        labels={"zone": draw(st.sampled_from("xy"))} if draw(st.booleans()) else {},
        is_schedulable=draw(st.integers(0, 5)) > 0,
        devices={"GPU": devices},
    )


@st.composite
def clusters(draw: st.DrawFn) -> list[NodeState]:
    return [draw(states(f"n{at}")) for at in range(draw(st.integers(0, 6)))]


GPUS = st.sampled_from([0, SCALE // 2, SCALE, 2 * SCALE])
REQUESTS = st.builds(
    lambda cpu, gpu, zone: Request(
        resources=ResourceSet({"CPU": cpu, "GPU": gpu}),
        selector=parse_selector({"zone": zone} if zone else {}),
    ),
    HALVES,
    GPUS,
    st.sampled_from([None, "x", "!x", "in(x,y)"]),
)
ASKING = st.builds(
    Asking,
    local=st.sampled_from([None, "n0", "n3"]),
    preferred=st.sampled_from([None, "n0", "n1", "gone"]),
    require_available=st.booleans(),
    avoid_local=st.booleans(),
)
FALLBACK = parse_selector({"zone": "x"})
STRATEGIES: dict[str, Callable[[], Strategy]] = {
    "hybrid": lambda: Hybrid(),
    "hybrid top 2": lambda: Hybrid(top_k_absolute=2, avoid_gpu_nodes=False),
    "spread": Spread,
    "random": RandomAvailable,
    "two-pass": TwoPassRandom,
    "affinity": lambda: NodeAffinity(node="n1", soft=True),
    "fallbacks": lambda: WithFallbacks(fallbacks=[FALLBACK]),
    "least waiting": LeastWaiting,
    "selector": Selector,
}
NAMES = st.sampled_from(sorted(STRATEGIES))


def strategy(name: str) -> Strategy:
    return STRATEGIES[name]()


@settings(max_examples=examples(150))
@given(clusters(), REQUESTS, ASKING, NAMES, st.randoms(use_true_random=False))
def test_a_choice_can_hold_the_request_and_a_no_is_true(
    nodes: list[NodeState], request: Request, terms: Asking, name: str, rng: random.Random
) -> None:
    found = strategy(name).pick(ClusterView(NodeTable(nodes)), request, terms, rng)
    # A fallback takes the place of the request's selector.
    selectors = [request.selector, *([FALLBACK] if name == "fallbacks" else [])]
    allowed = [
        node
        for node in nodes
        if node.is_schedulable
        and any(selector.holds(node.labels) for selector in selectors)
        and not (terms.avoid_local and node.id == terms.local)
    ]
    feasible = {node.id for node in allowed if request.resources <= node.total}
    available = {node.id for node in allowed if node.id in feasible and fits(node, request)}
    if isinstance(found, Placed):
        if name == "affinity" and found.node == "n1":
            return  # a node that is named is taken, passed over or not
        assert found.node in feasible
        assert found.is_available is (found.node in available) or name == "two-pass"
        assert found.is_available or not terms.require_available
    else:
        assert not available or name == "two-pass"
        assert (found.reason == "infeasible") is (not feasible)
        assert sum(one.nodes for one in found.turned_away) <= len(nodes)


@settings(max_examples=examples(100))
@given(clusters(), REQUESTS, ASKING, NAMES, st.integers(0, 99))
def test_the_order_of_the_node_list_changes_nothing(
    nodes: list[NodeState], request: Request, terms: Asking, name: str, seed: int
) -> None:
    shuffled = random.Random(seed).sample(nodes, len(nodes))
    answers = [
        strategy(name).pick(ClusterView(NodeTable(one)), request, terms, random.Random(seed))
        for one in (nodes, shuffled)
    ]
    assert answers[0] == answers[1]


@settings(max_examples=examples(100))
@given(clusters(), states("n9"), REQUESTS, ASKING, NAMES)
def test_adding_a_node_never_makes_a_feasible_request_infeasible(
    nodes: list[NodeState], added: NodeState, request: Request, terms: Asking, name: str
) -> None:
    view = ClusterView(NodeTable(nodes))
    before = strategy(name).pick(view, request, terms, random.Random(1))
    view.nodes.put(added)
    after = strategy(name).pick(view, request, terms, random.Random(1))
    if not (isinstance(before, Rejection) and before.reason == "infeasible"):
        assert not (isinstance(after, Rejection) and after.reason == "infeasible")


@settings(max_examples=examples(100))
@given(clusters(), st.lists(REQUESTS, min_size=1, max_size=3), st.data())
def test_what_is_kept_equals_what_is_made_anew(
    nodes: list[NodeState], requests: list[Request], data: st.DataObject
) -> None:
    view = ClusterView(NodeTable(nodes), limit=2)
    names = [node.id for node in nodes]
    for step in range(data.draw(st.integers(1, 6))):
        name = data.draw(NAMES)
        request = data.draw(st.sampled_from(requests))
        terms = data.draw(ASKING)
        fresh = ClusterView(NodeTable(view.nodes.states))
        kept = strategy(name).pick(view, request, terms, random.Random(step))
        anew = strategy(name).pick(fresh, request, terms, random.Random(step))
        assert kept == anew
        action = data.draw(st.sampled_from(["put", "put", "add", "remove"]))
        if action == "add":
            names.append(f"m{step}")
            view.nodes.put(data.draw(states(names[-1])))
        elif action == "remove" and names:
            view.nodes.remove(names.pop(data.draw(st.integers(0, len(names) - 1))))
        elif names:
            view.nodes.put(data.draw(states(data.draw(st.sampled_from(names)))))


@settings(max_examples=examples(50))
@given(clusters(), st.lists(REQUESTS, max_size=12))
def test_taking_what_is_placed_never_over_allocates(
    nodes: list[NodeState], requests: list[Request]
) -> None:
    view = ClusterView(NodeTable(nodes))
    rng = random.Random(3)
    for request in requests:
        found = Hybrid().pick(view, request, Asking(require_available=True), rng)
        if isinstance(found, Placed):
            view.nodes.take(found.node, request.resources)
            after = view.nodes.states[view.nodes.row_of[found.node]]
            assert all(after.available.get(n, 0) >= 0 for n in request.resources)
            assert sum(after.devices["GPU"]) == after.available.get("GPU", 0)
            assert min(after.devices["GPU"], default=0) >= 0


def fits(node: NodeState, request: Request) -> bool:
    """Whether the request could start: each device must have enough, and of everything else the
    sums.
    """
    gpus = request.resources.get("GPU", 0)
    left = node.units_left("GPU")
    whole = left.count(SCALE) * SCALE
    has_devices = max(left, default=0) >= gpus if gpus < SCALE else whole >= gpus
    rest = all(
        units <= node.available.get(name, 0)
        for name, units in request.resources.items()
        if name != "GPU"
    )
    return rest and (not gpus or has_devices)
