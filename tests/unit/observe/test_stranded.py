"""Stranded resources, which are free but of no use: amounts, parts of devices, and the shapes of
work that decide.
"""

from __future__ import annotations

import pytest

from phalanx.observe.stranded import Free, fits, smallest, stranded, stranded_in_all

ONE = {"CPU": 1.0, "GPU": 1.0}


@pytest.mark.parametrize(
    ("amounts", "shapes", "found"),
    [
        ({"CPU": 0.0, "GPU": 2.0}, [ONE], {"GPU": 2.0}),
        ({"CPU": 1.0, "GPU": 2.0}, [ONE], {}),
        ({"CPU": 4.0, "GPU": 0.0}, [ONE], {"CPU": 4.0}),
        ({"CPU": 4.0, "GPU": 0.0}, [ONE, {"CPU": 2.0}], {}),
        ({"CPU": 4.0, "GPU": 4.0}, [{"GPU": 8.0}], {"GPU": 4.0}),
        ({"CPU": 4.0, "GPU": 4.0}, [], {}),
        ({"CPU": 4.0}, [{"TPU": 1.0}], {}),
    ],
)
def test_what_no_shape_can_use_is_stranded(amounts, shapes, found):
    assert stranded(Free(amounts, {}), shapes) == found


def test_a_part_of_a_device_comes_from_one_and_a_number_of_them_from_unused_ones():
    halves = Free({"GPU": 1.0}, {"GPU": [5_000, 5_000]})
    assert fits(halves, {"GPU": 0.5})
    assert not fits(halves, {"GPU": 0.6})
    assert not fits(halves, {"GPU": 1.0})
    assert fits(Free({"GPU": 1.5}, {"GPU": [10_000, 5_000]}), {"GPU": 1.0})
    assert stranded(halves, [{"GPU": 1.0}]) == {"GPU": 1.0}


def test_only_shapes_decide_into_which_no_other_of_the_same_resources_fits():
    shapes = [{"CPU": 2.0}, {"CPU": 1.0, "GPU": 0.0}, {"CPU": 4.0}, ONE, {"CPU": 2.0, "GPU": 0.5}]
    assert smallest([*shapes, {}]) == [{"CPU": 1.0}, ONE, {"CPU": 2.0, "GPU": 0.5}]


def test_nodes_are_added_up():
    assert stranded_in_all({"a": {"GPU": 2.0}, "b": {"GPU": 1.0, "CPU": 3.0}}) == {
        "GPU": 3.0,
        "CPU": 3.0,
    }
