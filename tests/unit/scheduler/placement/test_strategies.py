from __future__ import annotations

import random
from typing import Any

import pytest

from phalanx.scheduler.devices.instances import IMPLICIT_PREFIX
from phalanx.scheduler.devices.sets import ResourceSet
from phalanx.scheduler.placement.affinity import NodeAffinity, WithFallbacks
from phalanx.scheduler.placement.entry import pick_node, placement_strategy
from phalanx.scheduler.placement.hybrid import Hybrid
from phalanx.scheduler.placement.labels import LabelSelector, condition, parse_selector
from phalanx.scheduler.placement.locality import best_holder
from phalanx.scheduler.placement.node_table import NodeState, NodeTable
from phalanx.scheduler.placement.outcome import Placed, Rejection
from phalanx.scheduler.placement.placement_policy import POLICIES, read_placement_policy
from phalanx.scheduler.placement.request_class import ClusterView, Request
from phalanx.scheduler.placement.selector.settings import SelectorSettings
from phalanx.scheduler.placement.selector.strategy import Selector
from phalanx.scheduler.placement.spread import RandomAvailable, Spread
from phalanx.scheduler.placement.two_pass import TwoPassRandom
from phalanx.scheduler.placement.waiting_time import LeastWaiting

from .language import asking, cluster, picks, request, resources, said

BEST_ONE = Hybrid(top_k_fraction=0, avoid_gpu_nodes=False)

# nodes | request | terms | what DEFAULT says when it takes the best node
HYBRID = [
    ("a 2CPU; b 2CPU", "1CPU", "", "a"),
    ("a 2CPU; b 2CPU", "1CPU", "preferred=b", "b"),
    ("a 1/2CPU; b 2CPU", "1CPU", "", "b"),  # half used counts as used
    ("a 1.1/2CPU; b 2CPU", "1CPU", "", "a"),  # less than half does not
    ("a 1/2CPU; b 0.5/2CPU", "1CPU", "", "a"),
    ("a 1/2CPU; b 2CPU", "1CPU", "preferred=a", "b"),  # preferred, but worse
    ("a 0/2CPU; b 2CPU", "1CPU", "preferred=a", "b"),
    ("a 0/2CPU; b 0/2CPU", "1CPU", "preferred=b", "b busy"),
    ("a 0/2CPU; b 0/2CPU", "1CPU", "", "a busy"),
    ("a 0/2CPU; b 0/2CPU", "1CPU", "now", "unavailable"),
    ("a 2CPU; b 2CPU", "3CPU", "", "infeasible"),
    ("a 2CPU; b 2CPU", "1GPU", "", "infeasible"),
    ("a 2CPU !; b 2CPU", "1CPU", "", "b"),
    ("a 2CPU !; b 2CPU !", "1CPU", "", "infeasible"),
    ("a 2CPU; b 2CPU", "1CPU", "local=a away", "b"),
    ("a 2CPU", "1CPU", "local=a preferred=a away", "infeasible"),
    ("a 2CPU; b 0/2CPU", "1CPU", "local=a away", "b busy"),
    ("a 2CPU; b 0/2CPU", "1CPU", "local=a away now", "unavailable"),
    ("a 8CPU 0.1/1memory; b 4/8CPU 1memory", "1CPU", "", "b"),  # the scarcer one counts
    ("a 8CPU 0/8GPU; b 3/8CPU 8GPU", "1CPU", "", "a"),  # GPUs say nothing of load
    ("", "1CPU", "", "infeasible"),
    ("a 2CPU", "", "", "a"),
]


@pytest.mark.parametrize(("nodes", "wanted", "terms", "expected"), HYBRID)
def test_default_takes_the_best(nodes: str, wanted: str, terms: str, expected: str) -> None:
    view = cluster(nodes.replace(";", "\n"))
    assert picks(BEST_ONE, view, request(wanted), terms) == expected


@pytest.mark.parametrize(
    ("threshold", "expected"), [(0.5, "b"), (0.51, "a"), (0.0, "b"), (1.0, "a")]
)
def test_the_threshold_is_strict(threshold: float, expected: str) -> None:
    view = cluster("a 1/2CPU\nb 2CPU")
    found = picks(Hybrid(spread_threshold=threshold, top_k_fraction=0), view, request("1CPU"))
    assert found == expected


@pytest.mark.parametrize(
    ("absolute", "fraction", "taken"),
    [
        (1, 0.0, "a"),
        (2, 0.0, "a | b"),
        (1, 0.5, "a | b"),
        (3, 0.5, "a | b | d"),
        (1, 0.49, "a"),
        (9, 0.0, "a | b | c | d"),
    ],
)
def test_a_random_one_of_the_best_few(absolute: int, fraction: float, taken: str) -> None:
    view = cluster("a 4CPU\nb 4CPU\nc 1/4CPU\nd 2/4CPU")
    hybrid = Hybrid(top_k_absolute=absolute, top_k_fraction=fraction)
    assert picks(hybrid, view, request("1CPU"), draws=60) == taken


@pytest.mark.parametrize(
    ("nodes", "wanted", "expected"),
    [
        ("a 4CPU 1GPU; b 1/4CPU", "1CPU", "b"),
        ("a 4CPU 1GPU; b 0/4CPU", "1CPU", "a"),
        ("a 0/4CPU 1GPU; b 0/4CPU", "1CPU", "a busy"),  # busy ones in order, GPUs or not
        ("a 4CPU 1GPU; b 4CPU", "1CPU 1GPU", "a"),
        ("a 4CPU 0/1GPU; b 4CPU", "1GPU", "a busy"),
    ],
)
def test_gpu_nodes_are_avoided_by_what_needs_no_gpu(nodes: str, wanted: str, expected: str) -> None:
    view = cluster(nodes.replace(";", "\n"))
    assert picks(Hybrid(top_k_fraction=0), view, request(wanted)) == expected


def test_spread_goes_round_and_keeps_its_place() -> None:
    view = cluster("a 4CPU\nb 0/4CPU\nc 4CPU\nd 4CPU 0/1GPU")
    spread = Spread()
    terms = ["", "", "", "", "local=a away", "local=a away"]
    assert [picks(spread, view, request("1CPU"), one) for one in terms] == [
        "a", "c", "d", "a", "c", "d",
    ]  # fmt: skip
    assert picks(spread, view, request("1GPU")) == "d busy"
    assert picks(spread, view, request("1GPU"), "now") == "unavailable"
    assert picks(spread, view, request("9GPU")) == "infeasible"


def test_random_takes_any_available_node_and_no_other() -> None:
    view = cluster("a 4CPU\nb 0/4CPU\nc 4CPU\nd 4CPU !\ne 1CPU")
    assert picks(RandomAvailable(), view, request("2CPU"), draws=80) == "a | c"
    assert picks(RandomAvailable(), view, request("9CPU")) == "infeasible"
    assert picks(RandomAvailable(), cluster(""), request("1CPU")) == "infeasible"


def test_two_passes_count_load_against_what_is_available() -> None:
    view = cluster("a 4CPU\nb 4CPU\nc 4CPU\nd 1CPU")
    loaded = view.nodes.states[0]
    view.nodes.put(
        NodeState(id="a", total=loaded.total, available=loaded.available, load=resources("3CPU"))
    )
    assert picks(TwoPassRandom(), view, request("2CPU"), draws=60) == "b | c"
    full = cluster("a 0/4CPU\nb 1/4CPU\nd 1CPU")
    assert picks(TwoPassRandom(), full, request("2CPU"), draws=60) == "a busy | b busy"
    assert picks(TwoPassRandom(), full, request("2CPU"), "now") == "unavailable"


# target | soft | flag | what node affinity says
AFFINITY = [
    ("a", False, "", "a"),
    ("busy", False, "", "busy busy"),
    ("small", False, "", "infeasible"),
    ("gone", False, "", "infeasible"),
    ("dying", False, "", "infeasible"),
    ("a", True, "", "a"),
    ("busy", True, "", "busy busy"),
    ("small", True, "", "a"),
    ("gone", True, "", "a"),
    ("dying", True, "", "a"),
    ("busy", True, "spill_on_unavailable", "a"),
    ("a", True, "spill_on_unavailable", "a"),
    ("busy", False, "fail_on_unavailable", "unavailable"),
    ("small", False, "fail_on_unavailable", "infeasible"),
    ("a", False, "fail_on_unavailable", "a"),
]


@pytest.mark.parametrize(("target", "soft", "flag", "expected"), AFFINITY)
def test_node_affinity(target: str, soft: bool, flag: str, expected: str) -> None:
    view = cluster("a 4CPU\nbusy 0/4CPU\nsmall 0.5CPU\ndying 4CPU !")
    affinity = NodeAffinity(
        node=target, soft=soft, otherwise=BEST_ONE, **({flag: True} if flag else {})
    )
    assert picks(affinity, view, request("1CPU")) == expected


def test_flags_that_contradict_the_affinity() -> None:
    with pytest.raises(ValueError, match="needs soft=True"):
        NodeAffinity(node="a", spill_on_unavailable=True)
    with pytest.raises(ValueError, match="needs soft=False"):
        NodeAffinity(node="a", soft=True, fail_on_unavailable=True)


def test_labels_that_are_wished_for_come_before_those_that_must_hold() -> None:
    """NodeLabelSchedulingStrategy first looks for a node that also meets the soft conditions, then
    for one that meets only the hard ones.
    """
    hard = LabelSelector((condition("zone", "In", ["x"]),))
    both = hard & LabelSelector((condition("disk", "Exists"),))
    labels = WithFallbacks(fallbacks=[hard], strategy=BEST_ONE)
    wanted = Request(resources=resources("1CPU"), selector=both)
    lines = [
        "a 1CPU zone=x disk=ssd",
        "b 1CPU zone=x",
        "c 0/1CPU zone=x disk=ssd",
        "d 0/1CPU zone=x",
        "e 1CPU disk=ssd",
    ]
    answers = []
    while lines:
        answers.append(picks(labels, cluster("\n".join(lines)), wanted, draws=20))
        lines.pop(0)
    assert answers == ["a", "b", "c busy", "d busy", "infeasible"]
    assert picks(labels, cluster("d 0/1CPU zone=x"), wanted, "now") == "unavailable"


# nodes | selector | fallbacks | what DEFAULT with fallbacks says
FALLBACKS = [
    ("a 1CPU k=x; b 1CPU k=y", "x", [], "a"),
    ("a 1CPU k=x; b 1CPU k=y", "z", [], "infeasible"),
    ("a 1CPU k=x; b 1CPU k=y", "z", ["y"], "b"),
    ("a 0/1CPU k=x; b 1CPU k=y", "x", ["y"], "b"),
    ("a 0/1CPU k=x; b 0/1CPU k=y", "x", ["y"], "a busy"),
    ("a 0CPU k=x; b 0/1CPU k=y", "x", ["y"], "b busy"),
    ("a 1CPU k=x; b 1CPU k=y", "!x", [], "b"),
    ("a 1CPU k=x; b 1CPU", "!x", [], "b"),
    ("a 1CPU; b 1CPU k=y", "in(x,y)", [], "b"),
    ("a 1CPU k=x; b 1CPU k=y; c 1CPU", "!in(x,y)", [], "c"),
    ("a 1CPU k=w", "x", ["y", "w"], "a"),
]


@pytest.mark.parametrize(("nodes", "selector", "fallbacks", "expected"), FALLBACKS)
def test_selectors_with_fallbacks(
    nodes: str, selector: str, fallbacks: list[str], expected: str
) -> None:
    view = cluster(nodes.replace(";", "\n"))
    others = [parse_selector({"k": one}) for one in fallbacks]
    found = picks(
        WithFallbacks(fallbacks=others, strategy=BEST_ONE), view, request("1CPU", k=selector)
    )
    assert found == expected


def test_an_actor_that_asks_for_nothing_goes_anywhere() -> None:
    view = cluster("a 0/4CPU\nb 4CPU\nc 4CPU")
    rng = random.Random(1)

    def place(**terms: object) -> set[str]:
        return {
            said(
                pick_node(
                    view,
                    request(""),
                    asking("local=a preferred=a"),
                    rng,
                    creates_actor=True,
                    **terms,  # type: ignore[arg-type]
                )
            )
            for _ in range(60)
        }

    assert place(strategy=Hybrid()) == {"a", "b", "c"}
    assert place(strategy=NodeAffinity(node="b", soft=True)) == {"a", "b", "c"}
    assert place(strategy=NodeAffinity(node="b")) == {"b"}


def test_the_local_node_is_taken_at_once_where_it_is_preferred_and_free() -> None:
    view = cluster("a 1/8CPU\nb 8CPU")
    rng = random.Random(1)

    def where(terms: str, nodes: ClusterView = view) -> str:
        return said(pick_node(nodes, request("1CPU"), asking(terms), rng, strategy=BEST_ONE))

    assert where("local=a preferred=a") == "a"
    assert where("local=a") == "b"
    assert where("local=a preferred=a away") == "b"
    assert where("local=a preferred=a", cluster("a 0/8CPU\nb 8CPU")) == "b"


def test_fallbacks_at_the_way_in() -> None:
    view = cluster("a 0/1CPU k=x\nb 1CPU k=y")
    found = pick_node(
        view,
        request("1CPU", k="x"),
        asking(),
        random.Random(1),
        strategy=BEST_ONE,
        fallbacks=[parse_selector({"k": "y"})],
    )
    assert said(found) == "b"


@pytest.mark.parametrize(
    ("held", "bound_to", "by_locality", "expected"),
    [
        ({}, None, True, "local"),
        ({"b": 0}, None, True, "local"),
        ({"b": 5, "c": 9}, None, True, "c"),
        ({"b": 5, "local": 5}, None, True, "local"),
        ({"c": 5, "b": 5}, None, True, "b"),
        ({"b": 5}, None, False, "local"),
        ({"b": 5}, "d", True, "d"),
    ],
)
def test_locality(
    held: dict[str, int], bound_to: str | None, by_locality: bool, expected: str
) -> None:
    assert best_holder(held, "local", bound_to, by_locality) == expected


def test_a_share_must_fit_one_device() -> None:
    states = [
        NodeState(
            id="a",
            total=resources("2GPU"),
            available=resources("0.6GPU"),
            devices={"GPU": (3000, 3000)},
        )
    ]
    view = ClusterView(NodeTable(states))
    half = Request(resources=resources("0.5GPU"))
    assert picks(Hybrid(), view, half) == "a busy"
    assert picks(Hybrid(), view, Request(resources=resources("0.3GPU"))) == "a"
    by_sums = Request(resources=resources("0.5GPU"), exact_devices=False)
    assert picks(Hybrid(), view, by_sums) == "a"


def test_a_device_and_a_half_is_refused_at_the_call() -> None:
    with pytest.raises(
        ValueError, match=r"GPU: above 1, whole numbers only, not 1\.5; ask for 1 or 2"
    ):
        picks(Hybrid(), cluster("a 4GPU"), Request(resources=resources("1.5GPU")))


def test_the_implicit_resource_is_everywhere_until_it_is_used() -> None:
    name = IMPLICIT_PREFIX + "x"
    view = cluster("a 1CPU\nb 1CPU")
    wanted = Request(resources=ResourceSet({name: 10_000}))
    assert picks(BEST_ONE, view, wanted) == "a"
    used = view.nodes.states[0]
    view.nodes.put(NodeState(id="a", total=used.total + {name: 10_000}, available=used.available))
    assert picks(BEST_ONE, view, wanted) == "b"


POLICY_CLASSES = {
    "default": Hybrid,
    "hybrid": Hybrid,
    "least-waiting": LeastWaiting,
    "selector": Selector,
    "two-pass-random": TwoPassRandom,
}


@pytest.mark.parametrize("name", POLICIES)
def test_policies_of_a_cluster_by_name(name: str) -> None:
    waiting = LeastWaiting()
    made = placement_strategy(read_placement_policy(name), waiting)
    assert type(made) is POLICY_CLASSES[name]
    assert (made is waiting) is (name == "least-waiting")


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("best", r"unknown placement strategy 'best'.*built in: default, hybrid, least"),
        ({"candidate_factor": 2}, "must name a policy: default"),
        (["selector"], "must name a policy"),
        ({"policy": "default", "candidate_factor": 2}, "default has no settings; given: candidate"),
        (
            {"policy": "selector", "factor": 2},
            "unknown field `factor`; its settings: candidate_factor",
        ),
        ({"policy": "selector", "candidate_factor": 0}, "candidate_factor must be 1 or more"),
        ({"policy": "selector", "same_rack": "maybe"}, "Invalid enum value 'maybe'"),
        ({"policy": "selector", "min_dynamic_port": 70_000}, "min_dynamic_port must be 0 to 65535"),
        ({"policy": "selector", "rack_label": ""}, "rack_label must be the name of a label"),
    ],
)
def test_policies_that_cannot_be(given: Any, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        read_placement_policy(given)


def test_settings_of_the_selector() -> None:
    found = read_placement_policy({"policy": "selector", "same_rack": "prefer"})
    assert found.selector == SelectorSettings(same_rack="prefer")
    assert not found.starts_here_first and read_placement_policy(None).starts_here_first


class TestReasons:
    def test_each_node_counts_for_the_first_filter_that_turns_it_away(self) -> None:
        view = cluster(
            "a 8CPU 0/4GPU z=x\nb 8CPU 1/4GPU z=x\nc 8CPU z=x\nd 1CPU 8GPU z=x\ne 8CPU 8GPU\n"
            "f 9CPU 9GPU z=x !"
        )
        found = BEST_ONE.pick(view, request("2CPU 2GPU", z="x"), asking("now"), random.Random(0))
        assert isinstance(found, Rejection)
        assert [
            (one.filter, one.nodes, one.resource, one.asked, one.most) for one in found.turned_away
        ] == [
            ("draining", 1, None, 0, 0),
            ("labels", 1, None, 0, 0),
            ("total", 1, "CPU", 2, 1),
            ("total", 1, "GPU", 2, 0),
            ("free", 2, "GPU", 2, 1),
        ]
        assert str(found) == (
            "unavailable: 1 node draining or dead; 1 node with other labels; "
            "1 node with at most 1 CPU in total, 2 asked; "
            "1 node with at most 0 GPU in total, 2 asked; "
            "2 nodes with at most 1 GPU free, 2 asked"
        )

    def test_a_local_node_that_is_passed_over_is_told(self) -> None:
        found = BEST_ONE.pick(
            cluster("a 8CPU"), request("1CPU"), asking("local=a away"), random.Random(0)
        )
        assert str(found) == "infeasible: 1 node left out by the asker"

    def test_no_nodes_at_all(self) -> None:
        found = BEST_ONE.pick(cluster(""), request("1CPU"), asking(), random.Random(0))
        assert str(found) == "infeasible: there are no nodes"

    def test_whatever_is_placed_is_no_rejection(self) -> None:
        found = BEST_ONE.pick(cluster("a 1CPU"), request("1CPU"), asking(), random.Random(0))
        assert found == Placed(node="a", is_available=True)
