from __future__ import annotations

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from phalanx.scheduler.devices.sets import EMPTY, ResourceSet

NAMES = st.sampled_from(["CPU", "GPU", "memory", "custom"])
SETS = st.dictionaries(NAMES, st.integers(0, 50_000)).map(ResourceSet)


def resources(text: str) -> ResourceSet:
    """Return the resources of a text such as `"2 CPU, 0.5 GPU"`."""
    pairs = [part.split() for part in text.split(",") if part.strip()]
    return ResourceSet.from_mapping({name: float(amount) for amount, name in pairs})


@pytest.mark.parametrize(
    ("left", "right", "subset"),
    [
        ("", "", True),
        ("", "1 CPU", True),
        ("1 CPU", "", False),
        ("1 CPU", "1 CPU", True),
        ("1.0001 CPU", "1 CPU", False),
        ("1 CPU, 2 c", "2 CPU, 2 c, 2 d", True),
        ("1 CPU, 3 c", "2 CPU, 2 c", False),
        ("0 GPU", "1 CPU", True),
    ],
)
def test_subset(left: str, right: str, subset: bool) -> None:
    assert resources(left).is_subset(resources(right)) is subset
    assert (resources(left) <= resources(right)) is subset
    assert (resources(right) >= resources(left)) is subset


def test_differences_may_be_negative_and_then_are_no_superset_of_nothing() -> None:
    debt = resources("1 CPU") - resources("3 CPU")
    assert debt.to_mapping() == {"CPU": -2.0}
    assert not EMPTY.is_subset(debt)
    assert debt <= EMPTY


def test_zero_entries_do_not_exist() -> None:
    assert ResourceSet({"CPU": 0, "GPU": 1}) == ResourceSet({"GPU": 1})
    assert hash(ResourceSet({"CPU": 0})) == hash(EMPTY)
    assert list(ResourceSet({"b": 1, "a": 1})) == ["a", "b"]


def test_bad_amounts_name_their_resource() -> None:
    with pytest.raises(ValueError, match="GPU: a resource amount must be 0 or more, not -1"):
        ResourceSet.from_mapping({"GPU": -1})


@given(SETS, SETS)
def test_subtracting_undoes_adding(left: ResourceSet, right: ResourceSet) -> None:
    assert (left + right) - right == left
    assert left <= left + right


@given(SETS)
def test_sets_travel(left: ResourceSet) -> None:
    assert pickle.loads(pickle.dumps(left)) == left
    assert ResourceSet.from_mapping(left.to_mapping()) == left
