"""Work that asks for more memory per card than any node's cards have is refused when it is
submitted.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from phalanx.errors import GangInfeasibleError
from phalanx.head.gangs.feasibility import check_side_by_side, most_members
from phalanx.head.gangs.live_cluster import _node_spec
from phalanx.head.nodes.record import NodeRecord
from phalanx.model.gpu_sharing import few_cards_text, sharing_amounts
from phalanx.scheduler.devices.cards import Cards
from phalanx.scheduler.devices.instances import NodeResources
from phalanx.scheduler.devices.sets import ResourceSet

GIB = 2**30
Options = dict[str, Any]


def record(sizes: list[int], has_mps: bool = True) -> NodeRecord:
    """Return a node whose cards have `sizes`, in GiB."""
    largest = max(sizes, default=0) * GIB
    totals: dict[str, float] = {"CPU": 8}
    if sizes:
        totals |= {"GPU": len(sizes), "gpu_cards": len(sizes), "gpu_memory": largest}
        totals |= {"gpu_memory_limit": largest, "gpu_compute": 1} | (
            {"gpu_mps": 1} if has_mps else {}
        )
    memory = tuple(gib * GIB for gib in sizes) if len(set(sizes)) > 1 else ()
    return NodeRecord(
        node_id="n", prefix=b"", host="", port=0, totals=totals, cards=Cards(memory=memory)
    )


def refused(nodes: list[NodeRecord], options: Options, members: int = 1) -> str:
    """Return why a gang is refused; "" if it is accepted."""
    needs = [sharing_amounts(options) for _ in range(members)]
    try:
        check_side_by_side("gang g", "q", needs, {}, [[node.whole for node in nodes]])
    except GangInfeasibleError as error:
        return str(error)
    return ""


def test_two_cards_are_refused_where_only_one_is_large_enough() -> None:
    asked = {"num_gpus": 2, "gpu_memory": "50GiB"}
    assert refused([record([80, 40])], asked) == (
        "gang g could never start here: it asks for 2 GPUs with 50.0 GiB of memory each, and the "
        "node with the most of them has 1 such GPU (its GPUs: 1 with 80.0 GiB, 1 with 40.0 GiB)."
    )
    assert refused([record([80, 40]), record([80, 80])], asked) == ""


def test_a_limit_above_the_memory_of_the_second_card_is_refused() -> None:
    asked = {"num_gpus": 2, "gpu_memory": "30GiB", "gpu_memory_limit": "60GiB"}
    assert "2 GPUs with 60.0 GiB of memory each" in refused([record([80, 40])], asked)


def test_members_with_shares_are_counted_card_by_card() -> None:
    assert most_members([{"GPU": 0.6}] * 4, [record([80, 80, 80]).whole]) == 3


def test_cycles_know_the_memory_of_cards_that_differ() -> None:
    assert _node_spec(record([80, 40])).devices == ((80 * 1024, 0.0), (40 * 1024, 0.0))
    assert _node_spec(record([80, 80])).devices == ()


SIZES = st.lists(st.sampled_from((0, 16, 24, 40, 80)), max_size=4).filter(lambda s: all(s) or not s)
NODES = st.lists(st.tuples(SIZES, st.booleans()), min_size=1, max_size=3)


@st.composite
def asked(draw: st.DrawFn) -> Options:
    """Draw options that `sharing_amounts` accepts."""
    options: Options = {}
    if draw(st.booleans()):
        gib = draw(st.integers(1, 90))
        options = {"gpu_memory": gib * GIB, "num_gpus": draw(st.integers(1, 4))}
        if draw(st.booleans()):
            options["gpu_memory_limit"] = draw(st.integers(gib, 95)) * GIB
    else:
        options = {"num_gpus": draw(st.sampled_from((0.1, 0.5, 0.9, 1, 2, 4)))}
    if options["num_gpus"] <= 1 and (len(options) > 1 or options["num_gpus"] < 1):
        options["gpu_share"] = draw(st.sampled_from(("time", "mps", None)))
        if options["gpu_share"] == "mps" and draw(st.booleans()):
            options["gpu_compute"] = draw(st.sampled_from((0.2, 1.0)))
    return options


@given(nodes=NODES, options=asked())
@example(nodes=[([80, 40], True)], options={"gpu_memory": 50 * GIB, "num_gpus": 2})
def test_what_no_cards_can_hold_is_refused_and_nothing_else(
    nodes: list[tuple[list[int], bool]], options: Options
) -> None:
    """This holds for a gang's member at the head, and for a task on its node."""
    least = max(options.get("gpu_memory", 0), options.get("gpu_memory_limit", 0))
    count = max(1, options["num_gpus"])
    needs_mps = options.get("gpu_share") == "mps"
    can_ever = [
        sum(gib * GIB >= least for gib in sizes) >= count and (has_mps or not needs_mps)
        for sizes, has_mps in nodes
    ]
    records = [record(sizes, has_mps) for sizes, has_mps in nodes]
    why = refused(records, options)
    assert (why == "") == any(can_ever), (why, nodes, options)
    request = ResourceSet.from_mapping(sharing_amounts(options))
    for node, can in zip(records, can_ever, strict=True):
        there = NodeResources(node.totals, cards=node.cards)
        assert there.can_ever(request) == can
        fits_the_sums = request.is_subset(ResourceSet.from_mapping(node.totals))
        if fits_the_sums and not can:
            assert few_cards_text(request.to_mapping(), [there.card_sizes()], "this node")


@pytest.mark.parametrize("members", [2, 3])
def test_a_gang_is_counted_on_the_cards_that_nodes_have(members: int) -> None:
    why = refused([record([80, 40, 16])], {"gpu_memory": "30GiB"}, members)
    assert why == ""  # two of 30 GiB on the largest card, and one on the second
    assert refused([record([80, 40, 16])], {"gpu_memory": "30GiB"}, 4) != ""
