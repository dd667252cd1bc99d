"""The search for places finds cells for an owner as long as the owner asks for no more than it was
promised.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.scheduler.cycle.test_cells import NODE, OWNERS, RACK, SIZES, promised, racks

from phalanx.scheduler.plugin_parts.card_sets import CARD
from phalanx.scheduler.plugin_parts.cell_search import Rooms, Want, find
from phalanx.scheduler.plugin_parts.cell_tree import Place
from phalanx.scheduler.plugin_parts.cells import Cells, Promise


def want(places: list[Place], count: int, cards: int, noted: list[int] | None = None) -> Want:
    request = np.array([cards * CARD], dtype=np.int64)
    allowed = np.ones(len(places), dtype=np.bool_)
    return Want(cards * CARD, request, [0], allowed, noted or [-1] * count)


def room_of(places: list[Place], held: list[tuple[str, int, int]]) -> npt.NDArray[np.int64]:
    room = np.array([[place.cards * CARD] for place in places], dtype=np.int64)
    for _, node, units in held:
        room[node, 0] -= units
    return room


@settings(max_examples=60)
@given(
    promised(),
    st.lists(
        st.tuples(st.sampled_from(OWNERS), st.integers(0, 20), st.integers(1, 8), st.booleans()),
        max_size=30,
    ),
    st.permutations(OWNERS),
)
def test_each_owner_finds_places_for_all_its_cells_after_any_history(
    cluster: tuple[list[Place], dict[str, Promise]],
    history: list[tuple[str, int, int, bool]],
    order: list[str],
) -> None:
    places, promises = cluster
    some = Cells(SIZES, places, promises)
    held: list[tuple[str, int, int]] = []
    for owner, at, cards, leaves in history:
        node, units = at % len(places), cards * CARD
        if leaves and held:
            gone = held.pop(at % len(held))
            some.take(*gone[:2], -gone[2])
        elif room_of(places, held)[node, 0] >= units and not some.try_to_take(owner, node, units):
            held.append((owner, node, units))
    for owner in filter(promises.__contains__, order):
        level, number = promises[owner]
        lacks = number - some.bound(owner)
        if lacks < 1:
            continue
        in_cell = SIZES[level] if level < NODE else 1  # a group has at least one card
        room = room_of(places, held)
        before = (some.lacking(), some.bound(owner))
        for one in range(lacks):
            (found,) = find(some, owner, [want(places, 1, in_cell)], Rooms(room, room, 0))
            assert found != [-1], f"{owner} lacks {lacks - one} cells"
            if level >= NODE:  # all of the cell's cards are taken, so the next one is a new cell
                around = some.around(level)
                for node in np.flatnonzero(around == around[found[0]]).tolist():
                    if room[node, 0] > 0:
                        some.take(owner, node, int(room[node, 0]))
                        held.append((owner, node, int(room[node, 0])))
            else:
                some.take(owner, found[0], in_cell * CARD)
                held.append((owner, found[0], in_cell * CARD))
            room = room_of(places, held)
        assert before[0] == some.lacking()


def three_racks() -> Cells:
    return Cells(SIZES, racks(3), {"a": Promise(RACK, 1), "b": Promise(NODE, 2)})


def test_a_gang_goes_to_the_rack_that_has_room_for_all_of_it() -> None:
    some = three_racks()
    room = room_of(racks(3), [("", 0, CARD), ("", 3, 8 * CARD)])
    assert find(some, "a", [want(racks(3), 2, 8)], Rooms(room, room, 0)) == [[4, 5]]
    assert some.bound("a") == 0


def test_cells_that_are_bound_already_are_used_first() -> None:
    some, room = three_racks(), room_of(racks(3), [])
    some.take("b", 3, CARD)
    assert find(some, "b", [want(racks(3), 2, 4)], Rooms(room, room, 0)) == [[3, 3]]


def test_little_work_must_leave() -> None:
    some, places = three_racks(), racks(3)
    now = room_of(places, [("", node, 8 * CARD) for node in (0, 1, 2, 4, 5)])
    everything = room_of(places, [])
    assert find(some, "a", [want(places, 2, 8)], Rooms(now, everything, 0)) == [[3, 2]]


def test_a_node_that_was_promised_earlier_is_kept() -> None:
    some, room = three_racks(), room_of(racks(3), [])
    assert find(some, "b", [want(racks(3), 1, 8, [5])], Rooms(room, room, 0)) == [[5]]


def test_the_largest_tasks_are_placed_first() -> None:
    places = racks(1)
    some = Cells(SIZES, places, {"a": Promise(RACK, 1)})
    room = room_of(places, [])
    wants = [want(places, 4, 2), want(places, 1, 8)]
    assert find(some, "a", wants, Rooms(room, room, 0)) == [[1, 1, 1, 1], [0]]
