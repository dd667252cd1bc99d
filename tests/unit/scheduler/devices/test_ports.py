from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from phalanx.scheduler.devices.ports import (
    Ports,
    common_ports,
    parse_ports,
    pick_ports,
    settle_ports,
)

RANGES = st.lists(
    st.tuples(st.integers(0, 60), st.integers(0, 12)).map(lambda pair: (pair[0], sum(pair))),
    max_size=6,
)


def ports(text: str) -> Ports:
    """Return the ports of a text such as `"3-7 10"`."""
    pairs = [part.partition("-") for part in text.split()]
    return Ports.of((int(low), int(high or low)) for low, _, high in pairs)


@pytest.mark.parametrize(
    ("given_ranges", "joined"),
    [
        ("", ""),
        ("5", "5-5"),
        ("6-7 10-100 3-5 90-102", "3-7 10-102"),
        ("1-2 3-4", "1-4"),
        ("1-2 4-5", "1-2 4-5"),
        ("1-9 2-3", "1-9"),
    ],
)
def test_ranges_join(given_ranges: str, joined: str) -> None:
    assert ports(given_ranges).ranges == ports(joined).ranges
    assert " ".join(f"{low}-{high}" for low, high in ports(given_ranges).ranges) == joined


@pytest.mark.parametrize(
    ("left", "right", "both", "only_left"),
    [
        ("3-7 10-102", "2-3 7-8 10-20", "3 7 10-20", "4-6 21-102"),
        ("3-7 10-102", "80", "80", "3-7 10-79 81-102"),
        ("3-7", "", "", "3-7"),
        ("3-7", "1-9", "3-7", ""),
        ("", "1-9", "", ""),
    ],
)
def test_ranges_cut_and_subtract(left: str, right: str, both: str, only_left: str) -> None:
    assert ports(left) & ports(right) == ports(both)
    assert ports(left) - ports(right) == ports(only_left)


@given(RANGES, RANGES)
def test_ranges_are_sets_of_ports(
    left: list[tuple[int, int]], right: list[tuple[int, int]]
) -> None:
    a, b = Ports.of(left), Ports.of(right)
    assert set(a | b) == set(a) | set(b)
    assert set(a & b) == set(a) & set(b)
    assert set(a - b) == set(a) - set(b)
    assert (a <= b) is (set(a) <= set(b))
    assert len(a) == len(set(a))
    assert list(a) == sorted(a)


@given(
    RANGES, st.sets(st.integers(0, 80)), st.integers(0, 30), st.integers(0, 70), st.integers(0, 99)
)
def test_picked_ports_are_free_and_as_many_as_asked(
    offered: list[tuple[int, int]], used: set[int], count: int, first: int, seed: int
) -> None:
    usable = set(Ports.of(offered).from_port(first)) - used
    picked = pick_ports(Ports.of(offered), count, first, random.Random(seed), used)
    if len(usable) < count:
        assert picked is None
    else:
        assert picked is not None
        assert len(set(picked)) == len(picked) == count
        assert set(picked) <= usable and picked == sorted(picked)


def test_picked_ports_come_in_one_run_where_they_can() -> None:
    picked = pick_ports(ports("2000-60000"), 40, 2000, random.Random(3))
    assert picked is not None and picked[-1] - picked[0] == 39


def test_two_choosers_rarely_meet_also_where_the_first_port_is_far_below_those_offered() -> None:
    picks = [pick_ports(ports("20000-32000"), 2, 0, random.Random(seed)) for seed in range(200)]
    assert len({pick[0] for pick in picks if pick}) > 190


# everywhere | on the chosen nodes | ports before | settled ones lie in
SETTLED = [
    ("1-9; 5-20; 5-6", "1-9; 5-20", [], "5-6"),  # every node has them
    ("1-9; 5-20; 30", "1-9; 5-20", [], "5-9"),  # only the chosen nodes do
    ("1-9; 5-20; 5-6", "1-9; 5-20", [8, 9], "8-9"),  # the same again
    ("1-9; 5-20; 5-6", "1-9; 5-20", [9, 10], "5-6"),
    ("1-9; 5-20", "1-9; 5-20", [7], "5-9"),  # it needs another number now
    ("1-9; 9-20", "1-9; 9-20", [], None),
    ("1-9", "", [], None),
]


@pytest.mark.parametrize(("everywhere", "chosen", "before", "within"), SETTLED)
def test_settled_ports(everywhere: str, chosen: str, before: list[int], within: str | None) -> None:
    nodes, kept = ([parse_ports(one) for one in x.split(";")] for x in (everywhere, chosen))
    found = settle_ports(nodes, kept, 2, 0, random.Random(1), earlier=before)
    if within is None:
        assert found is None
    else:
        assert found is not None and len(found) == 2 and set(found) <= set(parse_ports(within))


def test_settled_ports_are_not_used_by_others() -> None:
    free = parse_ports("5-9")
    found = settle_ports([free], [free], 2, 0, random.Random(1), earlier=[5, 6], used={5, 7, 8})
    assert found == [6, 9]


def test_common_ports() -> None:
    assert common_ports([ports("1-9"), ports("5-20"), ports("2-6 8")]) == ports("5-6 8")
    assert common_ports([]) == Ports()


def test_ports_as_they_are_written() -> None:
    assert parse_ports("8080,8081, 2000-2003") == ports("2000-2003 8080-8081")
    assert parse_ports("") == Ports()
    for text in ("http", "80-", "80-eighty", "9-3"):
        with pytest.raises(ValueError, match="port"):
            parse_ports(text)


@pytest.mark.parametrize("bad", [(9, 3), (-1, 3), (1, 70_000)])
def test_ranges_that_cannot_be(bad: tuple[int, int]) -> None:
    with pytest.raises(ValueError, match=r"runs upwards: 9-3; did you mean 3-9|ports must be 0 to"):
        Ports.of([bad])
