"""Gangs that ask for memory of GPUs, or for parts of GPUs: cycles count each card separately."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from phalanx.manifests.quantities import batch_amounts
from phalanx.model.gpu_sharing import sharing_amounts
from phalanx.scheduler.cycle.config import parse_volcano
from phalanx.scheduler.cycle.cycle import run_cycle
from phalanx.scheduler.cycle.explain import sentence
from phalanx.scheduler.cycle.plan import Plan
from phalanx.scheduler.cycle.registry import known_plugins
from phalanx.scheduler.cycle.rows import BY_ONE
from phalanx.scheduler.cycle.specs import (
    NodeSpec,
    PodGroupSpec,
    QueueSpec,
    Shape,
    Snapshot,
    TaskSpec,
)
from phalanx.scheduler.devices.cards import CardAsk, card_ask, pick_cards
from phalanx.scheduler.devices.instances import NodeResources
from phalanx.scheduler.devices.quantities import SCALE
from phalanx.scheduler.devices.sets import ResourceSet
from phalanx.scheduler.plugins.gpu_sharing import GpuSharing

GIB = 2**30
RULES = """
actions: "allocate"
tiers:
- plugins:
  - name: gang
  - name: gpu-sharing
  - name: predicates
  - name: binpack
"""
Options = dict[str, object]


def decided(
    nodes: Sequence[tuple[int, int]],
    gangs: Sequence[tuple[int, Options]],
    running: Sequence[tuple[str, Options]] = (),
    on_cards: Sequence[int] = (),
) -> Plan:
    """Return a plan. `nodes`: (cards, GiB of each card) of n0, n1, ... `gangs`: (members, options)
    of g0, g1, ... `on_cards`: the card of each running task.
    """

    def shape(options: Options) -> Shape:
        return Shape(request=batch_amounts({"CPU": 1, **sharing_amounts(options)}))

    there = [
        TaskSpec(
            name=f"r{i}",
            podgroup="",
            shape=shape(options),
            node=node,
            phase="Running",
            card=on_cards[i] if on_cards else -1,
        )
        for i, (node, options) in enumerate(running)
    ]
    return run_cycle(
        Snapshot(
            config=parse_volcano(RULES, known_plugins()),
            nodes=tuple(
                NodeSpec(
                    name=f"n{i}",
                    capacity=(
                        ("cpu", 99.0),
                        ("gpu_memory", float(gib * GIB)),
                        ("gpu_mps", 1.0),
                        ("nvidia.com/gpu", float(count)),
                        ("pods", 99.0),
                    ),
                )
                for i, (count, gib) in enumerate(nodes)
            ),
            queues=(QueueSpec(name="q"),),
            podgroups=tuple(
                PodGroupSpec(name=f"g{i}", queue="q", min_member=members, phase="Inqueue")
                for i, (members, _) in enumerate(gangs)
            ),
            tasks=tuple(
                TaskSpec(name=f"g{i}-{m}", podgroup=f"g{i}", shape=shape(options))
                for i, (members, options) in enumerate(gangs)
                for m in range(members)
            )
            + tuple(there),
        )
    )


def binds(plan: Plan) -> dict[str, str]:
    return {name.partition("/")[2]: node for name, node in plan.binds.items()}


def test_members_share_cards_by_their_memory_also_where_cards_differ() -> None:
    plan = decided([(1, 40), (1, 80)], [(6, {"gpu_memory": "20GiB"})])
    assert sorted(binds(plan).values()) == ["n0"] * 2 + ["n1"] * 4


def test_two_halves_of_different_cards_are_no_room_for_memory() -> None:
    held: list[tuple[str, Options]] = [("n0", {"gpu_memory": "50GiB"})] * 2
    assert binds(decided([(2, 80)], [(1, {"gpu_memory": "40GiB"})], held)) == {}
    assert binds(decided([(2, 80)], [(1, {"gpu_memory": "30GiB"})], held)) == {"g0-0": "n0"}


def test_whole_cards_stay_exclusive_beside_sharers() -> None:
    held: list[tuple[str, Options]] = [("n0", {"gpu_memory": "10GiB"})]
    assert binds(decided([(2, 80)], [(1, {"num_gpus": 2})], held)) == {}
    assert binds(decided([(2, 80)], [(1, {"num_gpus": 1})], held)) == {"g0-0": "n0"}


def test_a_card_keeps_one_mode() -> None:
    held: list[tuple[str, Options]] = [("n0", {"num_gpus": 0.5, "gpu_share": "mps"})]
    assert binds(decided([(1, 80)], [(1, {"num_gpus": 0.25})], held)) == {}
    asked: Options = {"num_gpus": 0.25, "gpu_share": "mps"}
    assert binds(decided([(1, 80)], [(1, asked)], held)) == {"g0-0": "n0"}


def test_parts_of_two_cards_are_no_room_for_a_larger_part() -> None:
    held: list[tuple[str, Options]] = [("n0", {"num_gpus": 0.4}), ("n0", {"num_gpus": 0.7})]
    plan = decided([(2, 80)], [(1, {"num_gpus": 0.7})], held)
    assert binds(plan) == {}
    reasons = [sentence(one) for found in plan.rejections.values() for one in found]
    assert "1 node has no room on 1 GPU (needs 0.7 of GPU on each, most free 0.6)" in reasons, (
        reasons
    )


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            {"gpu_memory": "40GiB"},
            "1 node has no room on 1 GPU (needs 40.0 GiB of gpu_memory on each, most free "
            "30.0 GiB)",
        ),
        (
            {"num_gpus": 0.5, "gpu_share": "mps"},
            "1 node has no room on 1 GPU shared by MPS (needs 0.5 of GPU on each, most free 0)",
        ),
    ],
)
def test_memory_is_named_as_the_reason(options: Options, said: str) -> None:
    held: list[tuple[str, Options]] = [("n0", {"gpu_memory": "50GiB"})]
    plan = decided([(1, 80)], [(1, options)], held)
    reasons = [sentence(one) for found in plan.rejections.values() for one in found]
    assert said in reasons


ASKED = st.one_of(
    st.builds(
        lambda gib, n: {"gpu_memory": gib * GIB, "num_gpus": n},
        st.integers(1, 90),
        st.integers(1, 2),
    ),
    st.builds(lambda gib: {"gpu_memory": gib * GIB, "gpu_share": "mps"}, st.integers(1, 90)),
    st.builds(
        lambda tenths, share: {"num_gpus": tenths / 10, "gpu_share": share},
        st.integers(1, 9),
        st.sampled_from(("time", "mps")),
    ),
    st.builds(lambda n: {"num_gpus": n}, st.integers(1, 2)),
)


@given(
    nodes=st.lists(st.tuples(st.integers(1, 3), st.sampled_from((40, 80))), min_size=1, max_size=3),
    gangs=st.lists(st.tuples(st.integers(1, 3), ASKED), min_size=1, max_size=5),
)
@example(
    nodes=[(2, 40)],
    gangs=[(1, {"num_gpus": 0.4, "gpu_share": "time"}), (2, {"num_gpus": 0.7})],
)
def test_what_a_cycle_places_the_nodes_can_hold(
    nodes: list[tuple[int, int]], gangs: list[tuple[int, Options]]
) -> None:
    """Each node gives whole cards first, then the rest in the order of the plan."""
    placed = binds(decided(nodes, gangs))
    for i, (count, gib) in enumerate(nodes):
        node = NodeResources({"GPU": count, "gpu_memory": gib * GIB, "gpu_mps": 1})
        mine = [gangs[int(t[1 : t.index("-")])][1] for t, n in placed.items() if n == f"n{i}"]
        for options in mine:
            request = ResourceSet.from_mapping(sharing_amounts(options))
            assert node.acquire(request) is not None, (options, mine)


@given(
    nodes=st.lists(st.tuples(st.integers(1, 4), st.sampled_from((40, 80))), min_size=1, max_size=4),
    running=st.lists(st.tuples(st.integers(0, 3), st.integers(1, 9)), max_size=6),
    gangs=st.lists(st.tuples(st.integers(1, 12), ASKED), min_size=1, max_size=5),
)
def test_equal_tasks_at_once_get_the_places_that_they_get_one_by_one(
    nodes: list[tuple[int, int]],
    running: list[tuple[int, int]],
    gangs: list[tuple[int, Options]],
) -> None:
    there: list[tuple[str, Options]] = [
        (f"n{node % len(nodes)}", {"num_gpus": tenths / 10}) for node, tenths in running
    ]
    at_once = decided(nodes, gangs, there)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(GpuSharing, "_changes", lambda self, eq_class: BY_ONE)
        one_by_one = decided(nodes, gangs, there)
    assert binds(at_once) == binds(one_by_one)


def test_halves_are_where_their_cards_are() -> None:
    """If the cards of two running halves are not known, the cycle assumes that they share one
    card.
    """
    halves: list[tuple[str, Options]] = [("n0", {"num_gpus": 0.5})] * 2
    whole: list[tuple[int, Options]] = [(1, {"num_gpus": 1})]
    assert binds(decided([(2, 80)], whole, halves, [0, 1])) == {}
    assert binds(decided([(2, 80)], whole, halves, [1, 1])) == {"g0-0": "n0"}
    assert binds(decided([(2, 80)], whole, halves)) == {"g0-0": "n0"}


@given(
    held=st.lists(st.tuples(st.integers(0, 2), st.integers(0, 3), st.integers(1, 10)), max_size=12),
    asked=st.sampled_from((0.1, 0.3, 0.5, 0.8, 1.0, 2.0)),
)
def test_a_request_gets_a_node_that_has_cards_for_it(
    held: list[tuple[int, int, int]], asked: float
) -> None:
    left = {node: dict.fromkeys(range(4), SCALE) for node in range(3)}
    running: list[tuple[str, Options]] = []
    on_cards = []
    for node, card, tenths in held:
        if left[node][card] >= tenths * SCALE // 10:
            left[node][card] -= tenths * SCALE // 10
            running.append((f"n{node}", {"num_gpus": tenths / 10}))
            on_cards.append(card if tenths < 10 else -1)
    found = binds(decided([(4, 80)] * 3, [(1, {"num_gpus": asked})], running, on_cards))
    units = round(asked * SCALE)
    ask = card_ask({"GPU": units}) or CardAsk(units // SCALE)
    fits = {f"n{node}" for node, of_node in left.items() if pick_cards(of_node, ask)}
    assert (found.get("g0-0") in fits) if fits else not found


def test_a_part_of_a_split_card_is_found_beside_sharers() -> None:
    mig = "nvidia.com/mig-1g.10gb"
    snapshot = Snapshot(
        config=parse_volcano(RULES, known_plugins()),
        nodes=(
            NodeSpec(
                name="n0",
                capacity=(("cpu", 9.0), (mig, 2.0), ("nvidia.com/gpu", 2.0), ("pods", 9.0)),
            ),
        ),
        queues=(QueueSpec(name="q"),),
        podgroups=(PodGroupSpec(name="g", queue="q", min_member=1, phase="Inqueue"),),
        tasks=(
            TaskSpec(
                name="half",
                podgroup="",
                shape=Shape(request=(("cpu", 1.0), ("nvidia.com/gpu", 0.5))),
                node="n0",
                phase="Running",
            ),
            TaskSpec(
                name="part",
                podgroup="g",
                shape=Shape(request=(("cpu", 1.0), ("nvidia.com/gpu", 1.0), (mig, 1.0))),
            ),
        ),
    )
    assert binds(run_cycle(snapshot)) == {"part": "n0"}
