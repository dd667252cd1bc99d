from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from phalanx.scheduler.devices.quantities import SCALE, from_units, to_units


@pytest.mark.parametrize(
    ("amount", "units"),
    [
        (0, 0),
        (1, 10_000),
        (0.3, 3000),
        (0.57, 5700),
        (0.29, 2900),
        (0.3 - 0.1, 2000),
        (0.1 + 0.2, 3000),
        (0.0001, 1),
        (0.00019, 1),
        (0.00001, 0),
        (1.99999, 19_999),
        (4.35, 43_500),
        (9 * 10**14, 9 * 10**14 * SCALE),
        (9e14, 9 * 10**14 * SCALE),
    ],
)
def test_amounts_are_cut_at_a_ten_thousandth(amount: float, units: int) -> None:
    assert to_units(amount) == units


@pytest.mark.parametrize("amount", [
        float("nan"), float("inf"), -float("inf"), -1, -0.0001, 9 * 10**14 + 1, 2**53, float(2**60),
    ],
)  # fmt: skip
def test_amounts_that_mean_nothing_are_refused(amount: float) -> None:
    with pytest.raises(ValueError, match="a resource amount must be"):
        to_units(amount)


@given(st.integers(0, 10**12))
def test_every_unit_survives_the_way_out_and_back(units: int) -> None:
    assert to_units(from_units(units)) == units


@given(st.lists(st.integers(0, 10**6), max_size=20))
def test_sums_of_amounts_lose_nothing(units: list[int]) -> None:
    assert sum(to_units(from_units(one)) for one in units) == sum(units)
