"""Cells are promised, bound and split so that every promise can be met, however owners spread their
work.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from phalanx.scheduler.plugin_parts.card_sets import CARD
from phalanx.scheduler.plugin_parts.cell_tree import Cell, Place
from phalanx.scheduler.plugin_parts.cells import (
    ALL_BOUND,
    BOUND_TO_OTHERS,
    OTHERS,
    OUTSIDE,
    PROMISED,
    Cells,
    Promise,
)

CARD_CELL, SWITCH, NODE, RACK = range(4)
SIZES = (1, 4)
Holding = tuple[str, int, int]


def racks(count: int, nodes: int = 2, cards: int = 8) -> list[Place]:
    return [Place(cards, (f"r{i // nodes}",)) for i in range(count * nodes)]


def cells(places: Sequence[Place], promises: Mapping[str, tuple[int, int]]) -> Cells:
    return Cells(SIZES, places, {owner: Promise(*p) for owner, p in promises.items()})


def test_many_small_takings_stay_in_one_node_where_one_is_promised() -> None:
    two = cells([Place(16), Place(16)], {"a": (NODE, 1), "b": (NODE, 1)})
    two.take("a", 0, CARD)
    assert two.fault("a", 1, CARD) == ALL_BOUND
    for _ in range(15):
        assert two.fault("a", 0, CARD) is None
        two.take("a", 0, CARD)
    assert two.fault("b", 0, CARD) == BOUND_TO_OTHERS
    assert two.fault("b", 1, 16 * CARD) is None


def test_a_free_rack_is_not_split_while_it_is_promised_whole() -> None:
    three = cells(racks(2), {"whole": (RACK, 1), "node": (NODE, 2)})
    three.take("node", 0, CARD)
    assert three.fault("node", 2, CARD) == PROMISED
    assert three.fault("node", 1, CARD) is None


def test_parts_become_whole_again() -> None:
    three = cells(racks(2), {"whole": (RACK, 1), "node": (NODE, 2)})
    three.take("node", 0, CARD)
    assert three.fault("whole", 0, CARD) == BOUND_TO_OTHERS
    three.take("node", 0, -CARD)
    assert three.fault("whole", 1, CARD) is None
    assert three.lacking() == [0, 0, 0, 0]


def test_sets_of_cards_inside_a_node() -> None:
    one = cells([Place(8)], {"switch": (SWITCH, 1), "card": (CARD_CELL, 4)})
    one.take("card", 0, 3 * CARD)
    assert one.fault("switch", 0, 2 * CARD) is None
    one.take("switch", 0, 2 * CARD)
    assert one.fault("switch", 0, 2 * CARD) is None
    assert one.fault("switch", 0, 3 * CARD) == ALL_BOUND
    assert one.fault("card", 0, CARD) is None
    one.take("card", 0, CARD)
    assert one.fault("card", 0, CARD) == ALL_BOUND


def test_shares_of_a_card() -> None:
    one = cells([Place(2), Place(2)], {"a": (CARD_CELL, 1), "b": (CARD_CELL, 3)})
    one.take("a", 0, CARD // 2)
    assert one.fault("a", 0, CARD // 2) is None
    assert one.fault("a", 1, CARD // 2) == ALL_BOUND


def test_a_node_outside_of_all_racks() -> None:
    some = cells([Place(8, ("",)), Place(8, ("r",))], {"a": (RACK, 1), "b": (NODE, 1)})
    assert some.fault("a", 0, CARD) == OUTSIDE
    assert some.fault("b", 1, CARD) == PROMISED
    assert some.fault("c", 0, CARD) == OUTSIDE


def test_the_smallest_rack_that_suffices_is_set_aside() -> None:
    places = [Place(8, ("small",)), *(Place(8, ("large",)) for _ in range(3))]
    some = cells(places, {"a": (RACK, 1), "b": (NODE, 3)})
    assert some.lacking() == [0, 0, 0, 0]
    for node in (1, 2, 3):
        assert some.fault("b", node, CARD) is None
        some.take("b", node, CARD)
    assert some.fault("a", 0, CARD) is None


def test_a_lack_forbids_only_what_makes_it_larger() -> None:
    one = cells([Place(8)], {"a": (NODE, 1), "b": (NODE, 1)})
    assert one.lacking() == [0, 0, 1]
    assert one.fault("a", 0, CARD) is None
    assert one.fault("b", 0, CARD) is None


def test_what_nobody_was_promised_makes_a_cell_unfree_but_unbinds_nothing() -> None:
    two = cells([Place(8), Place(8)], {"a": (NODE, 2)})
    two.take("a", 0, CARD)
    two.take(OTHERS, 0, CARD)
    two.take(OTHERS, 1, CARD)
    assert two.fault("a", 0, CARD) is None
    assert two.fault("a", 1, CARD) == BOUND_TO_OTHERS


def test_nodes_without_cards_are_no_cells() -> None:
    two = cells([Place(8), Place(0), Place(0, ("r",))], {"a": (NODE, 2), "b": (RACK, 1)})
    assert two.lacking() == [0, 0, 1, 1]
    assert two.fault("a", 1, CARD) == OUTSIDE


def test_cards_beyond_the_last_set_are_taken_first() -> None:
    few = cells([Place(2), Place(6)], {"a": (CARD_CELL, 4), "b": (SWITCH, 1)})
    assert few.lacking() == [0, 0, 0]
    for node in (0, 0, 1, 1):
        assert few.fault("a", node, CARD) is None
        few.take("a", node, CARD)
    assert few.fault("b", 1, 4 * CARD) is None


CLUSTERS = st.sampled_from(
    [
        [Place(2), Place(6, ("r0",)), Place(7, ("r0",))],
        racks(2),
        racks(3),
        [*racks(2), Place(4, ("",))],
        racks(2, 3, 4),
    ]
)
OWNERS = ("a", "b", "c", "d")


@st.composite
def promised(draw: st.DrawFn) -> tuple[list[Place], dict[str, Promise]]:
    """Draw a cluster with promises that it can keep."""
    places = draw(CLUSTERS)
    promises: dict[str, tuple[int, int]] = {}
    for owner in OWNERS:
        level = draw(st.integers(CARD_CELL, RACK))
        for count in range(draw(st.integers(0, 6)), 0, -1):
            trial = {**promises, owner: (level, count)}
            if not any(cells(places, trial).lacking()):
                promises = trial
                break
    return places, {owner: Promise(*p) for owner, p in promises.items()}


def bind_one_more(some: Cells, owner: str, level: int, nodes: int) -> bool:
    """Bind one more cell to this owner, on the first node where that is allowed. Returns whether
    there was such a node.
    """
    before = some.bound(owner)
    units = SIZES[level] * CARD if level < NODE else CARD
    for node in range(nodes):
        if some.fault(owner, node, units) is None:
            some.take(owner, node, units)
            if some.bound(owner) > before:
                return True
            some.take(owner, node, -units)
    return False


@given(
    promised(),
    st.lists(
        st.tuples(st.sampled_from(OWNERS), st.integers(0, 20), st.integers(1, 8), st.booleans()),
        max_size=40,
    ),
    st.permutations(OWNERS),
)
def test_every_promise_can_be_had_after_any_history(
    cluster: tuple[list[Place], dict[str, Promise]],
    history: list[tuple[str, int, int, bool]],
    order: list[str],
) -> None:
    places, promises = cluster
    some, nodes = Cells(SIZES, places, promises), len(places)
    held: list[Holding] = []
    for owner, at, cards, leaves in history:
        if leaves and held:
            gone, node, units = held.pop(at % len(held))
            some.take(gone, node, -units)
            continue
        node, units = at % nodes, cards * CARD // 2
        if some.fault(owner, node, units) is None:
            some.take(owner, node, units)
            held.append((owner, node, units))
        assert not any(some.lacking())
        answers, numbers = some.faults(owner, units)
        assert [answers[i] for i in numbers] == [some.fault(owner, n, units) for n in range(nodes)]
    again = Cells(SIZES, places, promises)
    assert again.take_all(held) == []
    for owner in filter(promises.__contains__, order):
        for _ in range(some.bound(owner), promises[owner].number):
            assert bind_one_more(some, owner, promises[owner].level, nodes)
    assert all(some.bound(owner) == p.number for owner, p in promises.items())


@given(promised(), st.lists(st.tuples(st.sampled_from(OWNERS), st.integers(0, 20)), max_size=30))
def test_a_cell_has_one_owner_and_giving_back_is_exact(
    cluster: tuple[list[Place], dict[str, Promise]], history: list[tuple[str, int]]
) -> None:
    places, promises = cluster
    some, nodes = Cells(SIZES, places, promises), len(places)
    fresh = (some.lacking(), dict(some._free))
    held = []
    for owner, at in history:
        if some.fault(owner, at % nodes, CARD) is None:
            some.take(owner, at % nodes, CARD)
            held.append((owner, at % nodes))
    for node in some.nodes:
        cell: Cell | None = node
        while cell is not None:
            bound_to = [o for o in cell.held if some.level_of(o) == cell.level]
            assert not bound_to or list(cell.held) == bound_to
            cell = cell.parent
    for owner, node_index in held:
        some.take(owner, node_index, -CARD)
    assert fresh == (some.lacking(), dict(some._free))


@pytest.mark.parametrize("level", [CARD_CELL, SWITCH, NODE, RACK])
def test_nobody_without_a_promise_is_an_owner(level: int) -> None:
    assert cells(racks(1), {"a": (level, 1)}).fault("b", 0, CARD) == OUTSIDE
