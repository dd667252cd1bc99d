"""The fragmentation measure, the node policies, and the placer that remembers their scores."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.effort import examples

from phalanx.scheduler.placement.fragmentation.catalogue import (
    POLICIES,
    UnknownPolicyError,
    maker_of,
)
from phalanx.scheduler.placement.fragmentation.measure import Fragmentation
from phalanx.scheduler.placement.fragmentation.mix import Mix, typical_mix
from phalanx.scheduler.placement.fragmentation.nodes import GpuNodes
from phalanx.scheduler.placement.fragmentation.placer import Placer
from phalanx.scheduler.placement.fragmentation.shape import Shape

MODELS = ("A", "B", "C")
SHAPES = st.one_of(
    st.builds(Shape, st.integers(0, 20_000), st.integers(0, 40)),
    st.builds(
        lambda cpu, memory, milli, models: Shape(cpu, memory, 1, milli, tuple(sorted(models))),
        st.integers(0, 20_000),
        st.integers(0, 40),
        st.sampled_from([100, 250, 300, 500, 810, 1000]),
        st.sets(st.sampled_from(MODELS), max_size=2),
    ),
    st.builds(lambda cpu, n: Shape(cpu, 0, n, 1000), st.integers(0, 60_000), st.integers(2, 4)),
)
PODS = st.lists(SHAPES, min_size=1, max_size=40)


def some_nodes() -> GpuNodes:
    return GpuNodes(
        [32_000, 64_000, 16_000, 64_000, 8_000, 96_000],
        [100, 200, 60, 200, 40, 400],
        [2, 4, 1, 4, 2, 8],
        ["A", "B", "A", "C", "B", "B"],
    )


def all_rows(nodes: GpuNodes) -> np.ndarray[tuple[int], np.dtype[np.intp]]:
    return np.arange(len(nodes), dtype=np.intp)


def by_definition(nodes: GpuNodes, mix: Mix, row: int) -> float:
    """Compute the measure as the paper defines it, by a loop over the shapes."""
    left = [int(v) for v in nodes.gpu_left[row]]
    idle, total = sum(left), 0.0
    for shape, share in zip(mix.shapes, mix.share, strict=True):
        model = nodes.model_names[nodes.model[row]]
        hosts = (
            shape.num_gpu > 0
            and (not shape.models or model in shape.models)
            and sum(v >= shape.gpu_milli for v in left) >= shape.num_gpu
            and nodes.cpu_left[row] >= shape.cpu_milli
        )
        total += share * (sum(v for v in left if v < shape.gpu_milli) if hosts else idle)
    return total


def fill(nodes: GpuNodes, pods: list[Shape]) -> None:
    placer = Placer(nodes, maker_of("random")(nodes, pods, np.random.default_rng(0)))
    for pod in pods:
        placer.place(pod)


@settings(max_examples=examples(60))
@given(before=PODS, usual=PODS)
def test_the_measure_is_the_papers(before: list[Shape], usual: list[Shape]) -> None:
    nodes, mix = some_nodes(), typical_mix(usual)
    fill(nodes, before)
    ours = Fragmentation(nodes, mix).now(all_rows(nodes))
    assert ours == pytest.approx([by_definition(nodes, mix, r) for r in range(len(nodes))])


@settings(max_examples=examples(60))
@given(before=PODS, usual=PODS, pod=SHAPES)
def test_growth_is_what_taking_adds(before: list[Shape], usual: list[Shape], pod: Shape) -> None:
    nodes, mix = some_nodes(), typical_mix(usual)
    fill(nodes, before)
    measure = Fragmentation(nodes, mix)
    rows = all_rows(nodes)[nodes.fits(all_rows(nodes), pod)]
    for at, device, growth in zip(*measure.growth(rows, pod), strict=True):
        row = int(rows[at])
        free = np.flatnonzero(nodes.gpu_left[row] >= 1000)[: pod.num_gpu]
        devices = (int(device),) if pod.is_shared else tuple(int(d) for d in free)
        was = by_definition(nodes, mix, row)
        nodes.take(row, devices, pod)
        assert growth == pytest.approx(by_definition(nodes, mix, row) - was, abs=1e-6)
        nodes.give_back(row, devices, pod)


@settings(max_examples=examples(25))
@given(pods=st.lists(SHAPES, min_size=1, max_size=60))
@example(pods=[Shape(4561, 0), Shape(0, 0), Shape(172, 0, 1, 100)])
@pytest.mark.parametrize("name", [n for n in POLICIES if n != "random"])
def test_remembered_scores_are_the_scores(name: str, pods: list[Shape]) -> None:
    nodes = some_nodes()
    policy = maker_of(name)(nodes, pods, np.random.default_rng(0))
    placer = Placer(nodes, policy)
    for pod in pods:
        placer.place(pod)
        for shape in {pod, pods[0]}:
            remembered = placer.scores(shape).copy()
            assert remembered == pytest.approx(Placer(nodes, policy).scores(shape))


@settings(max_examples=examples(25))
@given(pods=st.lists(SHAPES, min_size=1, max_size=60))
@pytest.mark.parametrize("name", list(POLICIES))
def test_no_policy_gives_more_than_there_is(name: str, pods: list[Shape]) -> None:
    nodes = some_nodes()
    placer = Placer(nodes, maker_of(name)(nodes, pods, np.random.default_rng(0)))
    used: Counter[tuple[int, int]] = Counter()
    for pod in pods:
        could = nodes.fits(all_rows(nodes), pod).any()
        choice = placer.place(pod)
        assert (choice is not None) == could
        if choice is not None:
            row, devices = choice
            assert len(set(devices)) == pod.num_gpu
            assert not pod.models or nodes.model_names[nodes.model[row]] in pod.models
            used.update({(row, d): pod.gpu_milli for d in devices})
    assert all(milli <= 1000 for milli in used.values())
    assert (nodes.cpu_left >= 0).all()
    assert (nodes.memory_left >= 0).all()


@pytest.mark.parametrize(
    ("name", "standing", "pod", "node"),
    [
        ("firstfit", [], Shape(1000, 0, 1, 500), 0),
        ("bestfit", [], Shape(1000, 0, 1, 500), 1),
        ("dotprod", [(1, Shape(30_000, 0, 1, 1000))], Shape(10_000, 0, 1, 500), 1),
        ("gpupacking", [(0, Shape(0, 0, 1, 500))], Shape(0, 0, 1, 500), 0),
        ("gpupacking", [(0, Shape(0, 0, 1, 500))], Shape(0, 0, 1, 1000), 0),
        ("gpupacking", [], Shape(0, 0, 1, 1000), 1),
        ("fgd", [(1, Shape(0, 0, 1, 500))], Shape(0, 0, 1, 500), 1),
    ],
)
def test_a_policys_choice(
    name: str, standing: list[tuple[int, Shape]], pod: Shape, node: int
) -> None:
    nodes = GpuNodes([64_000, 64_000], [100, 100], [4, 2], ["A", "A"])
    for row, shape in standing:
        nodes.take(row, tuple(range(shape.num_gpu)), shape)
    past = [Shape(0, 0, 1, 500), Shape(0, 0, 1, 1000)]
    choice = Placer(nodes, maker_of(name)(nodes, past, np.random.default_rng(0))).place(pod)
    assert choice is not None
    assert choice[0] == node


def test_clustering_stays_with_its_kind() -> None:
    nodes = GpuNodes([64_000] * 3, [100] * 3, [4] * 3, ["A"] * 3)
    placer = Placer(nodes, maker_of("gpuclustering")(nodes, (), np.random.default_rng(0)))
    pods = [Shape(0, 0, 1, 500), Shape(0, 0, 2, 1000), Shape(0, 0, 1, 500), Shape(0, 0, 2, 1000)]
    assert [choice and choice[0] for choice in map(placer.place, pods)] == [0, 1, 0, 1]


def test_scarcity_spares_the_rare_model() -> None:
    nodes = GpuNodes([64_000] * 3, [100] * 3, [4] * 3, ["A", "B", "B"])
    policy = maker_of("scarcity")(nodes, (), np.random.default_rng(0))
    placer = Placer(nodes, policy)
    only_a, any_model = Shape(1000, 0, 1, 1000, ("A",)), Shape(1000, 0, 1, 1000)
    assert placer.place(only_a) == (0, (0,))
    rows = [choice and choice[0] for choice in map(placer.place, [any_model] * 4)]
    assert 0 not in rows


def test_small_pods_keep_away_from_memory_that_usual_ones_need() -> None:
    nodes = GpuNodes([16_000, 16_000], [64, 8], [1, 1], ["A", "A"])
    policy = maker_of("scarcity")(nodes, [], np.random.default_rng(0))
    policy.observe(Shape(8_000, 48, 1, 1000), 10)
    row, _ = Placer(nodes, policy).place(Shape(8_000, 4, 1, 1000)) or (None, ())
    assert row == 1


def test_a_name_that_is_none_is_told_the_names() -> None:
    with pytest.raises(
        UnknownPolicyError, match="there is no policy 'best'; known policies: random, "
    ):
        maker_of("best")


@pytest.mark.parametrize(
    ("numbers", "reason"),
    [
        ((-1, 0, 0, 0), "cpu_milli is -1"),
        ((0, 0, 0, 5), "num_gpu is 0"),
        ((0, 0, 1, 0), "must be 1 to 1000"),
        ((0, 0, 2, 500), "must be 1000"),
    ],
)
def test_a_shape_that_cannot_be(numbers: tuple[int, int, int, int], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        Shape(*numbers)


def test_typical_shapes_cover_most_pods() -> None:
    small, large, rare = Shape(1), Shape(2, 0, 1, 500), Shape(3, 0, 1, 300)
    mix = typical_mix([small] * 70 + [large] * 26 + [rare] * 4)
    assert mix.shapes == (small, large)
    assert mix.share == pytest.approx([70 / 96, 26 / 96])


def test_books_refuse_what_does_not_fit() -> None:
    nodes = some_nodes()
    with pytest.raises(ValueError, match="needs 1 devices"):
        nodes.take(0, (0, 1), Shape(0, 0, 1, 500))
    with pytest.raises(ValueError, match="has 2 GPUs"):
        nodes.take(0, (5,), Shape(0, 0, 1, 500))
    nodes.take(0, (0,), Shape(0, 0, 1, 600))
    with pytest.raises(ValueError, match="does not fit"):
        nodes.take(0, (0,), Shape(0, 0, 1, 600))
    with pytest.raises(ValueError, match="was not booked"):
        nodes.give_back(0, (1,), Shape(0, 0, 1, 600))
