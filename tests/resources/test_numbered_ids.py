from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from phalanx.resources.instance_lists import add_bounded, allocate, create, subtract_bounded
from phalanx.resources.numbered_ids import NumberedIds
from phalanx.resources.quantities import SCALE, to_units

ALL = NumberedIds(whole=(0, 1, 2, 3))


def test_whole_devices_from_the_end_and_shares_by_first_fit() -> None:
    free, story = ALL, []
    for amount in (2, 0.3, 0.5, 0.3, 0.2):
        taken, free = free.acquire(to_units(amount))
        story.append((taken.whole, taken.shares, free.whole, free.shares))
    assert story == [
        ((3, 2), (), (0, 1), ()),
        ((), ((1, 3000),), (0,), ((1, 7000),)),
        ((), ((1, 5000),), (0,), ((1, 2000),)),
        ((), ((0, 3000),), (), ((1, 2000), (0, 7000))),
        ((), ((1, 2000),), (), ((0, 7000),)),
    ]


def test_shares_merge_into_a_whole_device_again() -> None:
    first, free = ALL.acquire(3000)
    second, free = free.acquire(7000)
    assert free.whole == (0, 1, 2) and free.shares == ()
    free = free.release(first)
    assert free.shares == ((3, 3000),)
    assert free.release(second).whole == (0, 1, 2, 3)


def test_a_decrease_is_paid_by_what_comes_back() -> None:
    taken, free = ALL.acquire(3 * SCALE)
    free = free.decrease(3)
    assert (free.whole, free.owed) == ((), 2)
    free = free.release(taken)
    assert (len(free.whole), free.owed) == (1, 0)


def test_an_increase_pays_what_is_owed_first() -> None:
    _, free = ALL.acquire(4 * SCALE)
    assert free.decrease(1).increase((4, 5)).whole == (5,)


@pytest.mark.parametrize("amount", [0, 1.5, 2.1])
def test_amounts_that_are_neither_whole_nor_a_share(amount: float) -> None:
    with pytest.raises(ValueError, match="one or more whole devices, or a share of one"):
        ALL.contains(to_units(amount))


def test_two_halves_are_not_three_quarters() -> None:
    halves = NumberedIds(shares=((0, 5000), (1, 5000)))
    assert not halves.contains(7500)
    with pytest.raises(ValueError, match=r"0\.75 devices are not free"):
        halves.acquire(7500)


def test_giving_back_twice() -> None:
    taken, free = ALL.acquire(SCALE)
    with pytest.raises(ValueError, match="given back twice"):
        free.release(taken).release(taken)
    with pytest.raises(ValueError, match="given back twice"):
        ALL.release(NumberedIds(shares=((1, 10),)))


@given(st.lists(st.one_of(st.integers(1, SCALE), st.just(SCALE), st.just(2 * SCALE)), max_size=12))
def test_everything_given_back_is_everything(amounts: list[int]) -> None:
    free, held = ALL, []
    for units in amounts:
        if free.contains(units):
            taken, free = free.acquire(units)
            held.append(taken)
        assert free.units() + sum(one.units() for one in held) == 4 * SCALE
        assert not set(free.whole) & {number for number, _ in free.shares}
    for one in held:
        free = free.release(one)
    assert sorted(free.whole) == [0, 1, 2, 3] and not free.shares


@pytest.mark.parametrize(
    ("before", "taken", "after", "lacking"),
    [
        ([1, 1], [0.5, 0.5], [0.5, 0.5], [0, 0]),
        ([0.5, 1], [1, 0.25], [0, 0.75], [0.5, 0]),
        ([0], [2], [0], [2]),
    ],
)
def test_subtracting_instance_by_instance(
    before: list[float], taken: list[float], after: list[float], lacking: list[float]
) -> None:
    assert subtract_bounded(units(before), units(taken)) == (units(after), units(lacking))


def test_subtracting_below_zero_where_that_is_allowed() -> None:
    assert subtract_bounded([5000], [SCALE], allow_negative=True) == ([-5000], [0])


def test_adding_instance_by_instance() -> None:
    total = [SCALE, SCALE]
    assert add_bounded(units([0.5, 0]), units([0.25, 1]), total) == (units([0.75, 1]), [0, 0])
    assert add_bounded(units([0.5, 1]), units([1, 1]), total) == (total, units([0.5, 1]))
    with pytest.raises(ValueError, match="2 instances and 1 amounts"):
        add_bounded(total, [1], total)


def test_instances_of_totals() -> None:
    made = create({"CPU": 2 * SCALE, "GPU": 3 * SCALE}, frozenset({"GPU"}))
    assert made == {"CPU": [2 * SCALE], "GPU": [SCALE] * 3}
    assert allocate(made, {"CPU": SCALE, "GPU": 15_000}, frozenset({"GPU"})) == {
        "CPU": [SCALE],
        "GPU": [SCALE, 5000, 0],
    }
    assert allocate(made, {"CPU": 3 * SCALE}, frozenset({"GPU"})) is None
    assert allocate(made, {"GPU": 35_000}, frozenset({"GPU"})) is None
    assert allocate(made, {"disk": 1}, frozenset({"GPU"})) is None


def units(amounts: list[float]) -> list[int]:
    return [to_units(amount) for amount in amounts]
