from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.effort import examples

from phalanx.scheduler.devices.sets import ResourceSet
from phalanx.scheduler.placement.bundles.domain import pick_bundles
from phalanx.scheduler.placement.bundles.matching import match
from phalanx.scheduler.placement.bundles.request import (
    BundleRejection,
    BundleRequest,
    BundlesPlaced,
)
from phalanx.scheduler.placement.bundles.room import Room, leftover_of
from phalanx.scheduler.placement.bundles.slots import PlacedBundle, Slot, pick_bundle
from phalanx.scheduler.placement.bundles.strategies import BundleOutcome
from phalanx.scheduler.placement.labels import parse_selector
from phalanx.scheduler.placement.node_table import NodeState, NodeTable
from phalanx.scheduler.placement.outcome import Rejection
from phalanx.scheduler.placement.request_class import ClusterView

from .language import cluster, resources

GPU_DOMAIN = "ray.io/gpu-domain"


def group(text: str, **more: object) -> BundleRequest:
    """Return the bundles of `"2CPU | 1CPU 1GPU"`; `3*1CPU` is three bundles."""
    bundles: list[ResourceSet] = []
    for part in text.split("|"):
        times, _, amounts = part.strip().rpartition("*")
        bundles += [resources(amounts)] * int(times or 1)
    return BundleRequest(bundles=tuple(bundles), **more)  # type: ignore[arg-type]


def said(outcome: BundleOutcome) -> str:
    """Return the nodes as `"a a b"`, or the reason of a rejection."""
    return " ".join(outcome.nodes) if isinstance(outcome, BundlesPlaced) else outcome.reason


def place(nodes: str, asked: BundleRequest) -> str:
    return said(pick_bundles(cluster(nodes.replace(";", "\n")), asked))


# nodes | bundles | strategy | nodes of the bundles as Phalanx decides | as Ray decides
TABLE = [
    # one node when it can be: the one that is filled best, or the emptiest
    ("a 8CPU; b 4CPU; c 3CPU", "2CPU | 1CPU", "PACK", "c c", "a a"),
    ("a 8CPU; b 4CPU", "2CPU | 2CPU", "PACK", "b b", "a a"),
    ("a 8CPU; b 4CPU", "2CPU | 2CPU", "STRICT_PACK", "b b", "a a"),
    ("a 2CPU; b 2CPU", "3*1CPU", "PACK", "a a b", "a a b"),
    ("a 1CPU; b 3CPU; c 1CPU", "4*1CPU", "PACK", "b b b a", "b b b a"),
    ("a 6CPU", "1CPU | 2CPU | 3CPU", "PACK", "a a a", "a a a"),
    ("a 6CPU", "1CPU | 2CPU | 3CPU | 5CPU", "PACK", "unavailable", "unavailable"),
    ("a 1CPU", "1CPU | 1CPU", "PACK", "unavailable", "unavailable"),
    ("a 1CPU", "1CPU | 2CPU", "PACK", "infeasible", "infeasible"),
    ("a 0/4CPU", "1CPU", "PACK", "unavailable", "unavailable"),
    ("a 4CPU !", "1CPU", "PACK", "infeasible", "infeasible"),
    ("", "1CPU", "PACK", "infeasible", "infeasible"),
    # what needs no GPU leaves the GPU nodes alone
    ("a 4CPU 4GPU; b 8CPU", "2CPU | 2CPU", "PACK", "b b", "b b"),
    ("a 4CPU 4GPU; b 8CPU", "2CPU | 2CPU 1GPU", "PACK", "a a", "a a"),
    # all on one node, or none
    ("a 3CPU; b 3CPU", "2CPU | 2CPU", "STRICT_PACK", "infeasible", "infeasible"),
    ("a 3/4CPU; b 3CPU", "2CPU | 2CPU", "STRICT_PACK", "unavailable", "unavailable"),
    # a node each when it can be: the emptiest first
    ("a 4CPU; b 8CPU; c 2CPU", "1CPU | 1CPU", "SPREAD", "b a", "b a"),
    ("a 4CPU; b 8CPU", "3*1CPU", "SPREAD", "b a b", "b a b"),
    ("a 4CPU", "3*1CPU", "SPREAD", "a a a", "a a a"),
    ("a 2CPU", "3*1CPU", "SPREAD", "unavailable", "unavailable"),
    ("a 2CPU; b 9GPU", "1CPU | 2CPU", "SPREAD", "unavailable", "unavailable"),
    # a node each, or none
    ("a 4CPU; b 8CPU", "1CPU | 1CPU", "STRICT_SPREAD", "b a", "b a"),
    ("a 4CPU", "1CPU | 1CPU", "STRICT_SPREAD", "infeasible", "infeasible"),
    ("a 4CPU; b 4CPU !", "1CPU | 1CPU", "STRICT_SPREAD", "infeasible", "infeasible"),
    ("a 4CPU; b 0/4CPU", "1CPU | 1CPU", "STRICT_SPREAD", "unavailable", "unavailable"),
    ("a 1CPU; b 2CPU; c 3CPU", "1CPU | 2CPU | 3CPU", "STRICT_SPREAD", "a b c", "a b c"),
    ("a 1CPU 2x; b 1CPU 1x; c 1CPU", "1CPU | 1CPU 1x | 1CPU 2x", "STRICT_SPREAD", "c b a", "c b a"),
    # the emptiest node for the first leaves none for the second; Phalanx moves the first
    ("a 4CPU 1y; b 2CPU", "1CPU 1y | 2CPU", "STRICT_SPREAD", "a b", "a b"),
    ("a 9CPU 1y; b 9CPU 1y; c 1x 9y", "1x 1y | 1x", "STRICT_SPREAD", "unavailable", "unavailable"),
    ("a 2m 4x; b 2m 8x", "1m 1x | 1m 8x", "STRICT_SPREAD", "a b", "a b"),
    ("a 9p 1q; b 2p", "1p | 1q", "STRICT_SPREAD", "b a", "unavailable"),
]  # fmt: skip


@pytest.mark.parametrize(("nodes", "bundles", "strategy", "ours", "rays"), TABLE)
def test_bundles(nodes: str, bundles: str, strategy: str, ours: str, rays: str) -> None:
    asked = group(bundles, strategy=strategy)
    assert place(nodes, asked) == ours
    assert place(nodes, replace(asked, scheduler_compat="ray")) == rays


# nodes | a selector for each bundle | strategy | nodes of the bundles
SELECTED = [
    ("a 9CPU z=x; b 9CPU z=y", ["x", "y"], "PACK", "a b"),
    ("a 9CPU z=x; b 9CPU z=y", ["y", "y"], "PACK", "b b"),
    ("a 9CPU z=x; b 9CPU z=y", ["!x", "x"], "SPREAD", "b a"),
    ("a 9CPU z=x; b 9CPU z=y", ["x", "x"], "SPREAD", "a a"),
    ("a 9CPU z=x; b 9CPU z=y", ["x", "y"], "STRICT_PACK", "infeasible"),
    ("a 9CPU z=x; b 9CPU z=y", ["in(x,y)", "y"], "STRICT_PACK", "b b"),
    ("a 9CPU z=x; b 9CPU z=y", ["x", "x"], "STRICT_SPREAD", "unavailable"),
    ("a 9CPU z=x; b 9CPU z=y", ["w", "x"], "PACK", "infeasible"),
    ("a 9CPU z=x; b 9CPU z=x; c 9CPU", ["x", "!x"], "STRICT_SPREAD", "a c"),
]


@pytest.mark.parametrize(("nodes", "selectors", "strategy", "expected"), SELECTED)
def test_bundles_with_selectors(
    nodes: str, selectors: list[str], strategy: str, expected: str
) -> None:
    parsed = tuple(parse_selector({"z": one}) for one in selectors)
    assert place(nodes, group("1CPU | 1CPU", strategy=strategy, selectors=parsed)) == expected


@pytest.mark.parametrize(
    ("nodes", "target", "expected"),
    [
        ("a 4CPU; b 8CPU", "b", "b b"),
        ("a 4CPU; b 1/8CPU", "b", "a a"),
        ("a 4CPU; b 8CPU !", "b", "a a"),
        ("a 4CPU; b 8CPU", "gone", "a a"),
    ],
)
def test_a_soft_target_is_taken_when_it_can_be(nodes: str, target: str, expected: str) -> None:
    asked = group("1CPU | 1CPU", strategy="STRICT_PACK", soft_target=target)
    assert place(nodes, asked) == expected


def test_strict_spread_keeps_away_from_placed_siblings() -> None:
    asked = group("1CPU", strategy="STRICT_SPREAD", occupied=frozenset({"a", "gone"}))
    assert place("a 9CPU; b 1CPU", asked) == "b"
    assert place("a 9CPU", asked) == "infeasible"


class TestDevices:
    @staticmethod
    def halves() -> ClusterView:
        """Return a node with 0.6 left on each of two GPUs, which is 1.2 in sum."""
        amounts = resources("2GPU"), resources("1.2GPU")
        state = NodeState(
            id="a", total=amounts[0], available=amounts[1], devices={"GPU": (6000, 6000)}
        )
        return ClusterView(NodeTable([state]))

    @pytest.mark.parametrize("strategy", ["PACK", "STRICT_PACK", "SPREAD"])
    def test_shares_must_fit_one_device_each(self, strategy: str) -> None:
        view = self.halves()
        two = group("0.6GPU | 0.6GPU", strategy=strategy)
        assert said(pick_bundles(view, two)) == "a a"
        three = group("3*0.4GPU", strategy=strategy)
        assert said(pick_bundles(view, three)) == "unavailable"
        assert said(pick_bundles(view, replace(three, scheduler_compat="ray"))) == "a a a"

    def test_a_node_whose_devices_could_never_be_shared_so_is_infeasible(self) -> None:
        asked = group("4*0.6GPU", strategy="STRICT_PACK")
        assert place("a 3GPU", asked) == "infeasible"
        assert place("a 4GPU", asked) == "a a a a"


class TestDomains:
    NODES = (
        "a1 4CPU ray.io/gpu-domain=a\na2 4CPU ray.io/gpu-domain=a\na3 4CPU ray.io/gpu-domain=a\n"
        "b1 4CPU ray.io/gpu-domain=b\nb2 4CPU ray.io/gpu-domain=b\nc1 9CPU"
    )

    def pick(self, bundles: str, **more: object) -> BundleOutcome:
        return pick_bundles(cluster(self.NODES), group(bundles, domain_label=GPU_DOMAIN, **more))

    def test_the_tightest_domain_that_takes_the_group(self) -> None:
        assert said(self.pick("2*4CPU")) == "b1 b2"
        assert said(self.pick("3*4CPU")) == "a1 a2 a3"
        found = self.pick("2*4CPU")
        assert isinstance(found, BundlesPlaced) and found.domain == "b"

    def test_a_group_never_straddles_domains(self) -> None:
        found = self.pick("4*4CPU")
        assert isinstance(found, BundleRejection) and found.reason == "infeasible"
        assert "one ray.io/gpu-domain could not hold all bundles" in str(found)

    def test_nodes_outside_all_domains_are_left_alone(self) -> None:
        assert said(self.pick("9CPU")) == "infeasible"

    def test_what_is_placed_already_binds_the_rest(self) -> None:
        assert said(self.pick("4CPU", domain="a")) == "a1"
        assert said(self.pick("3*4CPU", domain="b")) == "infeasible"

    def test_a_domain_that_is_full_now(self) -> None:
        view = cluster("a 0/4CPU ray.io/gpu-domain=a")
        found = pick_bundles(view, group("4CPU", domain_label=GPU_DOMAIN))
        assert isinstance(found, BundleRejection) and found.reason == "unavailable"


@pytest.mark.parametrize(
    ("bundles", "more", "told"),
    [
        ((), {}, "at least one bundle"),
        (("",), {}, "bundle 0 asks for nothing"),
        (("1CPU",), {"strategy": "TIGHT"}, "unknown bundle strategy 'TIGHT'; allowed: PACK"),
        (("1CPU",), {"selectors": (parse_selector({}),) * 2}, "1 bundles take 1 label selectors"),
        (("1CPU",), {"soft_target": "a"}, "a soft target node goes with STRICT_PACK, not PACK"),
    ],
)
def test_groups_that_cannot_be(
    bundles: tuple[str, ...], more: dict[str, object], told: str
) -> None:
    with pytest.raises(ValueError, match=told):
        BundleRequest(bundles=tuple(map(resources, bundles)), **more)  # type: ignore[arg-type]


def test_bundles_are_placed_scarcest_first() -> None:
    asked = group("9CPU | 1GPU | 2GPU | 1z | 1a | 1memory | 1object_store_memory | 8CPU 1memory")
    assert asked.hardest_first() == [2, 1, 4, 3, 6, 7, 5, 0]


def test_a_rejection_says_which_bundle_and_why() -> None:
    found = pick_bundles(cluster("a 2CPU\nb 4CPU"), group("1CPU | 9CPU"))
    assert isinstance(found, BundleRejection)
    assert (found.bundle, found.reason) == (1, "infeasible")
    assert str(found) == "bundle 1; infeasible: 2 nodes with at most 4 CPU in total, 9 asked"


@pytest.mark.parametrize(
    ("available", "asked", "score"),
    [
        ("8CPU", "4CPU", 0.5),
        ("8CPU", "8CPU", 0),
        ("8CPU 4GPU", "2CPU 1GPU", 1.5),
        ("8CPU", "9CPU", -1),
        ("8CPU", "1GPU", -1),
        ("8CPU", "", 0),
    ],
)
def test_what_is_left_over(available: str, asked: str, score: float) -> None:
    assert leftover_of(resources(available), resources(asked)) == score


@pytest.mark.parametrize(
    ("choices", "found"),
    [
        ({0: [1, 2], 1: [1]}, {0: 2, 1: 1}),
        ({0: [1], 1: [1]}, None),
        ({0: [1, 2], 1: [1, 3], 2: [1], 3: [2]}, None),
        ({0: [1, 2], 1: [2, 3], 2: [3, 1], 3: [3, 4]}, {0: 1, 1: 2, 2: 3, 3: 4}),
        ({}, {}),
        ({0: []}, None),
    ],
)
def test_matching(choices: dict[int, list[int]], found: dict[int, int] | None) -> None:
    assert match(choices) == found


class TestSlots:
    BUNDLES = (
        PlacedBundle(node="a", total=resources("2CPU"), available=resources("1CPU")),
        PlacedBundle(node="b", total=resources("2CPU 1GPU"), available=resources("2CPU 1GPU")),
    )

    @pytest.mark.parametrize(
        ("asked", "index", "found"),
        [
            ("1CPU", 0, "0 a"),
            ("1CPU", 1, "1 b"),
            ("1CPU", -1, "0 a"),
            ("2CPU", -1, "1 b"),
            ("2CPU", 0, "0 a busy"),
            ("1GPU", -1, "1 b"),
            ("1GPU", 0, "infeasible"),
            ("3CPU", -1, "infeasible"),
            ("", 0, "0 a"),
        ],
    )
    def test_one_bundle_serves_the_whole_task(self, asked: str, index: int, found: str) -> None:
        slot = pick_bundle(self.BUNDLES, resources(asked), index)
        if isinstance(slot, Slot):
            busy = "" if slot.is_available else " busy"
            assert f"{slot.bundle} {slot.node}{busy}" == found
        else:
            assert slot.reason == found

    def test_a_bundle_with_devices_is_left_to_those_that_use_them(self) -> None:
        for request, place in {"1CPU": ("a", 1), "1CPU 1GPU": ("b", 0)}.items():
            found = pick_bundle(self.BUNDLES[::-1], resources(request))
            assert isinstance(found, Slot)
            assert (found.node, found.bundle) == place

    def test_a_bundle_that_is_not_there(self) -> None:
        with pytest.raises(ValueError, match="bundle 2 of a group with 2: -1 for any, or 0 to 1"):
            pick_bundle(self.BUNDLES, resources("1CPU"), 2)

    def test_a_no_tells_the_most_there_is(self) -> None:
        found = pick_bundle(self.BUNDLES, resources("1CPU 2GPU"))
        assert isinstance(found, Rejection)
        assert str(found) == "infeasible: 2 nodes with at most 1 GPU in total, 2 asked"


AMOUNTS = st.integers(0, 6)
NODE_LISTS = st.lists(st.tuples(AMOUNTS, AMOUNTS, AMOUNTS), min_size=1, max_size=5)
BUNDLE_LISTS = st.lists(
    st.tuples(AMOUNTS, st.sampled_from([0, 0, 0.4, 0.5, 1, 2])).filter(any), min_size=1, max_size=5
)


@settings(max_examples=examples(150))
@given(
    NODE_LISTS, BUNDLE_LISTS, st.sampled_from(["PACK", "SPREAD", "STRICT_PACK", "STRICT_SPREAD"])
)
def test_whatever_is_placed_fits(
    nodes: list[tuple[int, int, int]], bundles: list[tuple[int, float]], strategy: str
) -> None:
    lines = [
        f"n{at} {min(free, cpus)}/{cpus}CPU {gpus}GPU"
        for at, (cpus, free, gpus) in enumerate(nodes)
    ]
    view = cluster("\n".join(lines))
    asked = group(" | ".join(f"{cpus}CPU {gpus}GPU" for cpus, gpus in bundles), strategy=strategy)
    found = pick_bundles(view, asked)
    reverse = ClusterView(NodeTable(reversed(view.nodes.states)))
    assert pick_bundles(reverse, asked) == found  # the order of the list changes nothing
    if isinstance(found, BundleRejection):
        return
    rooms = {node.id: Room(node, frozenset({"GPU"}), True) for node in view.nodes.states}
    for at in asked.hardest_first():
        assert rooms[found.nodes[at]].add(asked.bundles[at])
    distinct = len(set(found.nodes))
    if strategy == "STRICT_PACK":
        assert distinct == 1
    if strategy == "STRICT_SPREAD":
        assert distinct == len(found.nodes)
