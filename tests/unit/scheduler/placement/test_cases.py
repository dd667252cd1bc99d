"""Runs tables of cases: this repository's, and those in the directory that PHALANX_CASES names."""

from __future__ import annotations

import copy
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeVar, get_args

import msgspec
import pytest
import yaml

from .cases import placement, prose, schema, selecting, wiring

TABLES = Path(__file__).parent / "tables"
OTHERS = os.environ.get("PHALANX_CASES", "")
"""The directory with node_policies.yaml, node_selector.yaml and device_topology.yaml; "" for
none.
"""

T = TypeVar("T")


def load(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
    return found


def read(document: dict[str, Any], kind: type[T]) -> T:
    """Return the document as values of this type. Raises ValidationError for a part that the type
    does not have.
    """
    return msgspec.convert(document, kind)


def placement_table(path: Path) -> schema.PlacementTable:
    document = load(path)
    return read({**document, "cases": prose.strict(document["cases"])}, schema.PlacementTable)


Pair = tuple[str, Any, Any]
"""A row's name, its expected answer, and the actual answer."""


def of_placement(table: schema.PlacementTable) -> Iterator[Any]:
    for name, row in placement.numbered(table.cases):
        marks: list[Any] = []
        if type(row) in placement.NOT_OURS:
            marks = [pytest.mark.skip(reason=placement.NOT_OURS[type(row)])]
        elif name in placement.ON_PURPOSE:
            reason = placement.ON_PURPOSE[name]
            marks = [pytest.mark.xfail(strict=True, raises=ValueError, reason=reason)]
        yield pytest.param(row, id=name, marks=marks)


def of_selector(table: schema.SelectorTable) -> Iterator[Pair]:
    for at, mask in enumerate(table.gpu_mask_choice):
        yield f"mask {at}", mask.mask, selecting.mask_choice(mask)
    for at, ports in enumerate(table.ranges):
        yield f"ranges {at}", ports.out, selecting.ports(ports)
    for scenario in table.scenarios:
        for at, (expected, got) in enumerate(selecting.answers(scenario, table)):
            yield f"{scenario.id} step {at + 1}", expected, got


def of_wiring(table: schema.WiringTable) -> Iterator[Pair]:
    for row in table.cases:
        yield row.id, wiring.expected(row), wiring.answer(row, table)


OURS = placement_table(TABLES / "placement.yaml")


@pytest.mark.parametrize("row", list(of_placement(OURS)))
def test_our_rows_of_nodes_bundles_and_amounts(row: Any) -> None:
    assert placement.answer(row) == placement.expected(row)


def test_our_rows_of_the_selector() -> None:
    for name, expected, got in of_selector(
        read(load(TABLES / "selector.yaml"), schema.SelectorTable)
    ):
        assert got == expected, name


def test_our_rows_of_wiring() -> None:
    for name, expected, got in of_wiring(read(load(TABLES / "wiring.yaml"), schema.WiringTable)):
        assert got == expected, name


def test_every_area_has_a_row_of_ours() -> None:
    ours = {type(row) for row in OURS.cases}
    assert ours == set(get_args(schema.PlacementRow)) - placement.NOT_OURS.keys()


# ---- a wrong expectation is found ---------------------------------------------------------------

GIVEN = ("nodes", "node", "before", "request", "options", "add", "tried", "reserve", "free", "id")
"""Keys that are inputs and not expectations. In a set, `left` is also an input."""


def expectations(value: Any, path: tuple[Any, ...] = (), inside: bool = False) -> Iterator[Any]:
    """Yield (path, value) of every expected leaf."""
    keys = (
        "expect",
        "left",
        "available",
        "in_group",
        "available_MiB",
        "out",
        "pack",
        "pack_w",
        "mask",
    )
    if isinstance(value, dict) and value:
        for key, one in value.items():
            is_given = not inside and (key in GIVEN or (key == "left" and "op" in value))
            if not is_given and key != "each_seen":
                yield from expectations(one, (*path, key), inside or key in keys)
    elif (
        isinstance(value, list) and value and "any_of" not in path and "dynamic_within" not in path
    ):
        for at, one in enumerate(value):
            yield from expectations(one, (*path, at), inside)
    elif inside and "any_of" not in path and "dynamic_within" not in path:
        yield path, value


def other_than(value: Any) -> Any:
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return value + 1
    return "something else" if isinstance(value, str) else ["something else"]


def spoilt(document: dict[str, Any], section: str) -> Iterator[Any]:
    """Yield the document again and again. Each time one expectation of one row has a wrong
    value.
    """
    for row in document[section]:
        for path, value in expectations(row):
            changed = copy.deepcopy(row)
            place: Any = changed
            for key in path[:-1]:
                place = place[key]
            place[path[-1]] = other_than(value)
            empty: dict[str, list[Any]] = {
                key: [] for key in document if isinstance(document[key], list)
            }
            yield pytest.param(
                {**document, **empty, section: [changed]}, id=f"{row.get('id')} {path}"
            )


def holds(pairs: Iterator[Pair]) -> bool:
    return all(expected == got for _, expected, got in pairs)


@pytest.mark.parametrize("document", list(spoilt(load(TABLES / "placement.yaml"), "cases")))
def test_a_wrong_row_of_nodes_bundles_or_amounts_is_found(document: dict[str, Any]) -> None:
    with pytest.raises((AssertionError, msgspec.ValidationError, ValueError)):
        (row,) = read(document, schema.PlacementTable).cases
        assert placement.answer(row) == placement.expected(row)


@pytest.mark.parametrize(
    "document",
    [
        one
        for section in ("gpu_mask_choice", "scenarios", "ranges")
        for one in spoilt(load(TABLES / "selector.yaml"), section)
    ],
)
def test_a_wrong_row_of_the_selector_is_found(document: dict[str, Any]) -> None:
    with pytest.raises((AssertionError, msgspec.ValidationError)):
        assert holds(of_selector(read(document, schema.SelectorTable)))


@pytest.mark.parametrize("document", list(spoilt(load(TABLES / "wiring.yaml"), "cases")))
def test_a_wrong_row_of_wiring_is_found(document: dict[str, Any]) -> None:
    with pytest.raises((AssertionError, msgspec.ValidationError)):
        assert holds(of_wiring(read(document, schema.WiringTable)))


@pytest.mark.parametrize(
    ("row", "told"),
    [
        ({"id": "x", "area": "magic"}, "Invalid value 'magic'"),
        ({"id": "x", "area": "fit"}, "missing required field `node`"),
        ({"id": "x", "area": "scorer", "available": 3, "request": {}, "expect": 1}, "`object`"),
        (
            {
                "id": "x",
                "area": "scorer",
                "available": {},
                "request": {},
                "expect": 1,
                "expected": 2,
            },
            "unknown field `expected`",
        ),
    ],
)
def test_rows_that_are_refused(row: dict[str, Any], told: str) -> None:
    with pytest.raises(msgspec.ValidationError, match=told):
        read({"version": 1, "cases": [row]}, schema.PlacementTable)


# ---- the tables of others -----------------------------------------------------------------------

needs_others = pytest.mark.skipif(
    not OTHERS, reason="PHALANX_CASES names no directory with tables of others"
)


def _others() -> list[Any]:
    if not OTHERS:
        return [pytest.param(None, id="none", marks=needs_others)]
    return list(of_placement(placement_table(Path(OTHERS) / "node_policies.yaml")))


@pytest.mark.parametrize("row", _others())
def test_rows_of_others_about_nodes_bundles_and_amounts(row: Any) -> None:
    assert placement.answer(row) == placement.expected(row)


@needs_others
def test_rows_of_others_about_the_selector() -> None:
    table = read(load(Path(OTHERS) / "node_selector.yaml"), schema.SelectorTable)
    assert [(name, got) for name, _, got in of_selector(table)] == [
        (name, expected) for name, expected, _ in of_selector(table)
    ]


@needs_others
def test_rows_of_others_about_wiring() -> None:
    table = read(load(Path(OTHERS) / "device_topology.yaml"), schema.WiringTable)
    assert [(name, got) for name, _, got in of_wiring(table)] == [
        (name, expected) for name, expected, _ in of_wiring(table)
    ]
