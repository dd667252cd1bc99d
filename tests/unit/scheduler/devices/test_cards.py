"""GPUs that are shared by memory or by parts: each card has one account, and one mode at a time."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from phalanx.model.gpu_sharing import GPU, MEMORY, sharing_amounts
from phalanx.scheduler.devices.cards import (
    CardAsk,
    Cards,
    card_ask,
    how_often,
    most_free,
    pick_cards,
    shared_by,
)
from phalanx.scheduler.devices.devices import LowestIndex
from phalanx.scheduler.devices.instances import Allocation, NodeResources
from phalanx.scheduler.devices.quantities import SCALE
from phalanx.scheduler.devices.sets import ResourceSet
from phalanx.scheduler.placement.bundles.request import BundleRequest, BundlesPlaced
from phalanx.scheduler.placement.bundles.strategies import place
from phalanx.scheduler.placement.node_table import NodeState, NodeTable
from phalanx.scheduler.placement.request_class import ClusterView, Request, RequestClass

GIB = 2**30


def asks(**options: object) -> ResourceSet:
    return ResourceSet.from_mapping(sharing_amounts(options))


def node_of(count: int = 2, gib: int = 80, mps: bool = True, cards: Cards | None = None):
    total = {"CPU": 8, "GPU": count, "gpu_memory": gib * GIB, **({"gpu_mps": 1} if mps else {})}
    return NodeResources(total, cards=cards or Cards())


def cards_of(allocation: Allocation | None) -> list[int] | None:
    return None if allocation is None else [number for number, _ in allocation.instances["GPU"]]


def test_memory_fills_one_card_before_it_opens_another() -> None:
    node = node_of()
    request = asks(gpu_memory="20GiB")
    assert [cards_of(node.acquire(request)) for _ in range(9)] == [
        *[[0]] * 4, *[[1]] * 4, None,
    ]  # fmt: skip
    assert node.available()["GPU"] == 0


def test_several_cards_of_one_request_are_different_cards() -> None:
    node = node_of(3)
    pair = asks(num_gpus=2, gpu_memory="50GiB")
    assert cards_of(node.acquire(pair)) == [0, 1]
    assert cards_of(node.acquire(asks(gpu_memory="30GiB"))) == [0]
    assert node.acquire(pair) is None
    assert cards_of(node.acquire(asks(num_gpus=2, gpu_memory="30GiB"))) == [1, 2]


def test_sharers_of_a_card_share_its_mode_and_whole_cards_are_exclusive() -> None:
    node = node_of()
    by_mps = node.acquire(asks(num_gpus=0.25, gpu_share="mps"))
    assert by_mps is not None
    assert cards_of(by_mps) == [0]
    assert node.modes() == {0: "mps"}
    assert cards_of(node.acquire(asks(num_gpus=0.25))) == [1]
    assert cards_of(node.acquire(asks(gpu_memory="20GiB", gpu_share="mps"))) == [0]
    assert cards_of(node.acquire(asks(gpu_memory="20GiB", gpu_share="time"))) == [1]
    assert node.acquire(asks(num_gpus=1)) is None
    node.release(by_mps)
    assert node.modes() == {0: "mps", 1: "time"}


def test_an_empty_card_takes_any_mode_again() -> None:
    node = node_of(1)
    first = node.acquire(asks(num_gpus=0.5, gpu_share="mps"))
    assert first is not None
    assert node.acquire(asks(num_gpus=0.5)) is None
    node.release(first)
    assert cards_of(node.acquire(asks(num_gpus=0.5))) == [0]


@pytest.mark.parametrize(
    ("options", "can"),
    [
        ({"gpu_memory": "80GiB"}, True),
        ({"gpu_memory": "81GiB"}, False),
        ({"gpu_memory": "20GiB", "gpu_memory_limit": "81GiB"}, False),
        ({"num_gpus": 3, "gpu_memory": "1GiB"}, False),
        ({"num_gpus": 0.5, "gpu_share": "mps"}, False),
    ],
)
def test_what_no_card_has_is_never_possible(options: dict[str, object], can: bool) -> None:
    assert node_of(2, mps=False).can_ever(asks(**options)) is can


def test_parts_of_split_gpus_are_asked_for_by_profile() -> None:
    node = node_of(3)
    node.set_cards((10 * GIB, 10 * GIB, 40 * GIB), ("1g.10gb", "1g.10gb", "3g.40gb"))
    small = ResourceSet.from_mapping({"GPU": 1, "nvidia.com/mig-1g.10gb": 1})
    assert node.total()["nvidia.com/mig-1g.10gb"] == 2
    assert cards_of(node.acquire(asks(gpu_memory="8GiB"))) == [0]
    assert cards_of(node.acquire(asks(gpu_memory="20GiB"))) == [2]
    assert cards_of(node.acquire(small)) == [1]
    assert not node.can_now(small)
    assert not node.can_ever(ResourceSet.from_mapping({"GPU": 1, "nvidia.com/mig-7g.80gb": 1}))


def test_memory_that_is_not_back_is_not_handed_out() -> None:
    node = node_of(1)
    held = node.acquire(asks(gpu_memory="20GiB"))
    other = node.acquire(asks(gpu_memory="20GiB"))
    assert held is not None
    assert other is not None
    node.withhold({0: SCALE // 4})
    node.release(held)
    assert node.devices_left()["GPU"] == [SCALE // 2]
    assert node.available()["GPU"] == 0.5
    node.release(other)
    assert node.acquire(asks(gpu_memory="1GiB")) is None, "a card that nobody shares is checked"
    node.withhold({})
    assert cards_of(node.acquire(asks(num_gpus=1))) == [0]


SIZES = st.sampled_from((8, 16, 24, 40, 80))
OPTIONS = st.one_of(
    st.builds(
        lambda mib, n, share: {"gpu_memory": mib * 2**20, "num_gpus": n, "gpu_share": share},
        st.integers(1, 90_000),
        st.integers(1, 2),
        st.sampled_from(("time", None)),
    ),
    st.builds(lambda mib: {"gpu_memory": mib * 2**20, "gpu_share": "mps"}, st.integers(1, 90_000)),
    st.builds(
        lambda share, mode: {"num_gpus": share / 100, "gpu_share": mode},
        st.integers(1, 99),
        st.sampled_from(("time", "mps")),
    ),
    st.builds(lambda n: {"num_gpus": n}, st.integers(1, 3)),
)


@given(
    sizes=st.lists(SIZES, min_size=1, max_size=4),
    history=st.lists(st.tuples(OPTIONS, st.integers(0, 9)), max_size=40),
)
def test_no_card_is_over_committed_under_any_history(
    sizes: list[int], history: list[tuple[dict[str, object], int]]
) -> None:
    """The events are checked against separate accounts: bytes, parts as fractions, and the mode of
    each sharer.
    """
    node = node_of(len(sizes), max(sizes))
    node.set_cards(tuple(size * GIB for size in sizes))
    held: list[tuple[dict[str, object], Allocation]] = []
    for options, gives_back in history:
        request = asks(**options)
        could = node.can_now(request)
        found = node.acquire(request)
        assert (found is not None) is could
        if found is not None:
            held.append((options, found))
        elif held and gives_back < 7:
            node.release(held.pop(gives_back % len(held))[1])
        used = dict.fromkeys(range(len(sizes)), Fraction(0))
        modes: dict[int, set[object]] = {number: set() for number in used}
        for of_holder, allocation in held:
            numbers = [number for number, _ in allocation.instances["GPU"]]
            assert len({*numbers}) == len(numbers)
            whole = "gpu_memory" not in of_holder and of_holder["num_gpus"] in (1, 2, 3)
            is_one = "gpu_memory" not in of_holder and not whole
            assert len(numbers) == (1 if is_one else int(str(of_holder.get("num_gpus") or 1)))
            for number in numbers:
                if whole:
                    used[number] += 1
                    modes[number].add("whole")
                elif "gpu_memory" in of_holder:
                    used[number] += Fraction(int(str(of_holder["gpu_memory"])), sizes[number] * GIB)
                else:
                    used[number] += Fraction(str(of_holder["num_gpus"]))
                if not whole:
                    modes[number].add(of_holder.get("gpu_share") or "time")
        assert all(part <= 1 for part in used.values()), used
        assert all(len(of_card) <= 1 for of_card in modes.values()), modes


@given(
    left=st.lists(st.integers(0, SCALE), min_size=1, max_size=4),
    options=OPTIONS,
    modes=st.lists(st.sampled_from(("", "time", "mps")), max_size=4),
    gib=SIZES,
)
def test_the_most_that_is_free_tells_whether_cards_are_found(
    left: list[int], options: dict[str, object], modes: list[str], gib: int
) -> None:
    request = asks(**options)
    ask = card_ask(request)
    if ask is None:
        return  # whole cards without a profile need no account of their own
    cards = Cards(modes=tuple(modes))
    found = pick_cards(dict(enumerate(left)), ask, cards, gib * GIB)
    wanted = request[MEMORY] if ask.memory else request[GPU]
    assert (found is not None) is (most_free(left, ask, cards, gib * GIB) >= wanted)


def state(name: str, left: tuple[int, ...], gib: int = 80, modes: tuple[str, ...] = ()):
    total = {"CPU": 8, "GPU": len(left), "gpu_memory": gib * GIB, "gpu_mps": 1}
    total |= {"gpu_cards": len(left), "gpu_memory_limit": gib * GIB, "gpu_compute": 1}
    whole = ResourceSet.from_mapping(total)
    free = ResourceSet({**whole, "GPU": sum(left)})
    return NodeState(
        id=name, total=whole, available=free, devices={"GPU": left}, cards=Cards(modes=modes)
    )


class _AnyLowest(LowestIndex):
    """Chooses the same devices as are chosen without a chooser, but through the code for
    choosers.
    """


ASKS = st.one_of(
    st.builds(CardAsk, st.integers(1, 3)),
    st.builds(
        CardAsk, st.integers(1, 2), st.integers(1, SCALE), mode=st.sampled_from(("time", "mps"))
    ),
    st.builds(
        lambda count, gib, mode: CardAsk(count, memory=gib * GIB, mode=mode),
        st.integers(1, 2),
        st.integers(1, 90),
        st.sampled_from(("time", "mps")),
    ),
)


@given(
    sizes=st.one_of(st.just(()), st.lists(SIZES, min_size=4, max_size=4)),
    before=st.lists(ASKS, max_size=4),
    ask=ASKS,
    most=st.integers(1, 9),
)
def test_requests_have_room_as_often_as_cards_are_found_one_after_another(
    sizes: list[int], before: list[CardAsk], ask: CardAsk, most: int
) -> None:
    left, cards = dict.fromkeys(range(4), SCALE), Cards(memory=tuple(s * GIB for s in sizes))
    for one in before:
        held = pick_cards(left, one, cards, 80 * GIB) or ()
        left = {n: units - dict(held).get(n, 0) for n, units in left.items()}
        cards = shared_by(cards, one, held)
    counted = how_often(left, ask, cards, 80 * GIB, most)
    times = 0
    while (taken := pick_cards(left, ask, cards, 80 * GIB)) is not None:
        assert taken == pick_cards(left, ask, cards, 80 * GIB, _AnyLowest())
        times += 1
        left = {n: units - dict(taken).get(n, 0) for n, units in left.items()}
        cards = shared_by(cards, ask, taken)
    assert counted == times or (counted >= most and times >= most)


def test_nodes_are_chosen_by_the_memory_of_their_cards() -> None:
    table = NodeTable(
        [state("a", (2000, 2000)), state("b", (3000, 0)), state("c", (10000,), gib=16)]
    )
    known = RequestClass(table, Request(resources=asks(gpu_memory="20GiB")))
    assert known.feasible.tolist() == [True, True, False]
    assert known.available.tolist() == [False, True, False]
    table.take("b", asks(gpu_memory="20GiB"))
    known.catch_up()
    assert not known.available.any()
    said = str(known.rejection({}))
    assert said == (
        "unavailable: 1 node with at most 16.0 GiB of gpu_memory in total, 20.0 GiB asked; "
        "2 nodes with at most 16.0 GiB of gpu_memory free, 20.0 GiB asked"
    )


def test_a_card_shared_by_mps_has_no_room_for_time_sharers_elsewhere_either() -> None:
    table = NodeTable([state("a", (5000,), modes=("mps",)), state("b", (4000,))])
    half = RequestClass(table, Request(resources=asks(num_gpus=0.4)))
    assert half.available.tolist() == [False, True]
    by_mps = RequestClass(table, Request(resources=asks(num_gpus=0.4, gpu_share="mps")))
    assert by_mps.available.tolist() == [True, False]


@pytest.mark.parametrize("strategy", ["PACK", "SPREAD", "STRICT_PACK", "STRICT_SPREAD"])
def test_bundles_find_the_memory_of_cards(strategy: str) -> None:
    view = ClusterView(NodeTable([state("a", (10000, 10000)), state("b", (10000,), gib=40)]))
    asked = BundleRequest(bundles=(asks(gpu_memory="30GiB"),) * 2, strategy=strategy)  # type: ignore[arg-type]
    found = place(view, asked)
    assert isinstance(found, BundlesPlaced), found
    expected = {"PACK": "aa", "STRICT_PACK": "aa"}.get(strategy, "ab")
    assert sorted(found.nodes) == list(expected)
    five = BundleRequest(bundles=(asks(gpu_memory="30GiB"),) * 6, strategy="PACK")
    assert not isinstance(place(view, five), BundlesPlaced), "five fit: two, two and one"
