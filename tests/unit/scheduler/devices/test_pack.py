"""The exact rule for choosing devices, compared with tables and with a full search that uses the
rule's own score.
"""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.effort import examples

from phalanx.scheduler.devices.machines import known_machines, machine
from phalanx.scheduler.devices.topology import Topology, link_weight

Devices = tuple[int, ...]


def numbers(text: str) -> Devices:
    """Return the device numbers of `"03"` or `"1,12"`; `"all:8"` is all of eight."""
    if text.startswith("all:"):
        return tuple(range(int(text[4:])))
    return tuple(map(int, text.split(",") if "," in text else text))


@pytest.mark.parametrize(
    ("name", "free", "count", "picked", "weight"),
    [
        ("dgx1v", "all:8", 1, "0", 0),
        ("dgx1v", "all:8", 2, "03", 230),
        ("dgx1v", "all:8", 3, "023", 610),
        ("dgx1v", "all:8", 4, "0123", 1120),
        ("dgx1v", "all:8", 8, "01234567", 3000),
        ("dgx1v", "034567", 4, "4567", 1120),
        ("dgx1v", "123456", 4, "1235", 840),
        ("dgx1v", "014", 2, "04", 210),
        ("dgx1v", "0", 2, "", 0),
        ("dgx1v", "", 1, "", 0),
        ("dgx1p", "all:8", 2, "02", 150),
        ("dgx1p", "all:8", 4, "0123", 820),
        ("dgx_a100", "all:8", 2, "01", 1220),
        ("dgx_a100", "124567", 4, "4567", 7280),
        ("dgx_h100", "1234567", 4, "4567", 6 * 1820),
        ("dgx_h100", "01467", 2, "01", 1820),
        ("k80x4_flat", "all:4", 2, "01", 20),
        ("k80x6", "all:6", 4, "2345", 220),
        ("k80x6", "all:6", 2, "01", 50),
        ("k80x8", "1234567", 1, "1", 0),
        ("k80x8", "1234567", 2, "23", 50),
        ("k80x8", "135", 2, "13", 30),
        ("pcie8_2socket", "all:8", 3, "012", 90),
        ("pcie8_2socket", "34567", 3, "456", 90),
        ("pcie8_2socket", "023457", 3, "023", 90),
        ("pcie8_1socket_2switch", "12567", 3, "567", 150),
        ("pcie8_1socket_2switch", "12567", 2, "12", 50),
        ("a100pcie_bridges", "1234567", 2, "23", 1220),
        ("a100pcie_bridges", "all:8", 4, "0123", 2520),
        ("rtx4090_allsys", "345", 2, "45", 10),
        ("rtx4090_allsys", "all:8", 4, "0123", 60),
        ("dgx2", "all:16", 8, "01234567", 28 * 620),
        ("k80x16", "1,2,3,9,10", 2, "23", 50),
    ],
)
def test_known_machines(name: str, free: str, count: int, picked: str, weight: int) -> None:
    wiring = machine(name)
    found = wiring.pick(numbers(free), count)
    assert found == numbers(picked)
    assert sum(wiring.weights[i][j] for i in found for j in found if i < j) == weight


def test_single_devices_break_the_pair_that_is_broken_already() -> None:
    free = list(range(8))
    order = []
    while free:
        (device,) = machine("dgx1v").pick(free, 1)
        free.remove(device)
        order.append(device)
    assert order == [0, 3, 2, 1, 4, 5, 6, 7]


@pytest.mark.parametrize(
    ("name", "required", "count", "picked"),
    [
        ("dgx1v", "4", 2, "47"),
        ("dgx1v", "5", 4, "4567"),
        ("dgx1v", "07", 3, "047"),
        ("k80x8", "2", 1, "2"),
        ("k80x8", "01", 1, ""),
    ],
)
def test_required_devices(name: str, required: str, count: int, picked: str) -> None:
    found = machine(name).pick(range(8), count, numbers(required))
    assert found == numbers(picked)


def test_a_required_device_that_is_taken_leaves_no_choice() -> None:
    assert machine("dgx1v").pick([0, 1, 2], 2, required=[5]) == ()


@pytest.mark.parametrize(
    ("name", "free", "count", "min_link", "picked"),
    [
        ("dgx1v", "all:8", 4, "NV1", "0123"),
        ("dgx1v", "all:8", 5, "NV1", ""),
        ("dgx1v", "all:8", 2, "NV3", ""),
        ("k80x8", "0246", 2, "PHB", "02"),
        ("k80x8", "0246", 2, "PIX", ""),
        ("pcie8_2socket", "1357", 3, "NODE", ""),
    ],
)
def test_least_links(name: str, free: str, count: int, min_link: str, picked: str) -> None:
    found = machine(name).pick(numbers(free), count, min_link=min_link)
    assert found == numbers(picked)


def test_unknown_words() -> None:
    with pytest.raises(ValueError, match="unknown link 'NVX'; allowed: PSB, PIX"):
        link_weight("NVX")
    with pytest.raises(ValueError, match="unknown machine 'dgx9'; known: a100pcie_bridges"):
        machine("dgx9")


def test_devices_that_the_topology_does_not_know_are_left_alone() -> None:
    assert machine("k80x4_flat").pick([2, 3, 9], 2) == (2, 3)
    assert machine("k80x4_flat").pick([3, 9], 2) == ()


def test_more_devices_than_are_tabulated_still_pick_a_tight_set() -> None:
    weights = tuple(
        tuple(0 if i == j else 50 if i // 4 == j // 4 else 10 for j in range(20)) for i in range(20)
    )
    wiring = Topology(weights=weights, numa=(0,) * 20)
    assert wiring.pick([0, 1, 2, 5, 6, 7, 4, 9], 4) == (4, 5, 6, 7)
    assert wiring.pick([0, 1], 3) == ()
    with pytest.raises(ValueError, match="for up to 16 devices"):
        wiring.pick(range(20), 2, required=[1])


def full_search(wiring: Topology, free: Devices, count: int, required: Devices) -> Devices:
    """Choose devices by the rule as it is written: over all subsets, without tables."""

    def worth(i: int, j: int) -> int:
        weight = wiring.weights[i][j]
        same = wiring.numa[i] == wiring.numa[j] >= 0
        return 1_000_000 * weight + (weight if same else 0)

    def inside(chosen: Devices) -> int:
        return sum(worth(i, j) for i, j in combinations(chosen, 2))

    def best_left(left: Devices) -> int:
        if count == 1 or len(left) < count:
            return 0
        skipping = best_left(left[1:])
        taking = max(
            inside((left[0], *others)) + best_left(tuple(d for d in left[1:] if d not in others))
            for others in combinations(left[1:], count - 1)
        )
        return max(skipping, taking)

    def order(chosen: Devices) -> tuple[int, int, int, Devices]:
        left = tuple(d for d in free if d not in chosen)
        cut = sum(worth(i, j) for i in chosen for j in left)
        return (-inside(chosen) - best_left(left), -inside(chosen), cut, chosen)

    fitting = [s for s in combinations(sorted(free), count) if set(required) <= set(s)]
    return min(fitting, key=order, default=())


@settings(max_examples=examples(200))
@given(st.data())
def test_the_rule_is_never_beaten_by_a_full_search_of_its_own_score(data: st.DataObject) -> None:
    wiring = machine(data.draw(st.sampled_from(known_machines())))
    devices = st.sets(st.integers(0, wiring.device_count - 1), min_size=1, max_size=8)
    free = tuple(sorted(data.draw(devices)))
    count = data.draw(st.integers(1, len(free)))
    required = tuple(sorted(data.draw(st.sets(st.sampled_from(free), max_size=min(count, 2)))))
    assert wiring.pick(free, count, required) == full_search(wiring, free, count, required)


@settings(max_examples=examples(60))
@given(st.data())
def test_nor_on_wirings_nobody_built(data: st.DataObject) -> None:
    size = data.draw(st.integers(2, 7))
    words = st.sampled_from([10, 20, 30, 50, 110, 120, 220])
    pairs = {pair: data.draw(words) for pair in combinations(range(size), 2)}
    weights = tuple(
        tuple(0 if i == j else pairs[min(i, j), max(i, j)] for j in range(size))
        for i in range(size)
    )
    numa = tuple(data.draw(st.lists(st.integers(-1, 1), min_size=size, max_size=size)))
    wiring = Topology(weights=weights, numa=numa)
    free = tuple(range(size))
    for count in range(1, size + 1):
        assert wiring.pick(free, count) == full_search(wiring, free, count, ())


@given(st.permutations(range(8)), st.integers(1, 8))
def test_the_order_in_which_devices_are_named_changes_nothing(free: list[int], count: int) -> None:
    assert machine("dgx1v").pick(free, count) == machine("dgx1v").pick(range(8), count)
