from __future__ import annotations

import pytest

from phalanx.scheduler.placement.labels import (
    LabelSelector,
    condition,
    parse_condition,
    parse_selector,
)


@pytest.mark.parametrize(
    ("text", "told", "values"),
    [
        ("gpu", "k=gpu", ("gpu",)),
        ("!gpu", "k=!gpu", ("gpu",)),
        ("in(a,b)", "k=in(a,b)", ("a", "b")),
        ("in(b, a, b)", "k=in(a,b)", ("a", "b")),
        ("!in(a,b)", "k=!in(a,b)", ("a", "b")),
        ("in(a)", "k=a", ("a",)),
        (" a.b_c-d ", "k=a.b_c-d", ("a.b_c-d",)),
        ("in", "k=in", ("in",)),  # a value, not the operator
        ("", "k=", ("",)),
        ("a" * 63, "k=" + "a" * 63, ("a" * 63,)),
    ],
)
def test_conditions(text: str, told: str, values: tuple[str, ...]) -> None:
    parsed = parse_condition("k", text)
    assert (str(parsed), parsed.values) == (told, values)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("near(a)", "unknown label operator 'near'"),
        ("!exists(a)", "unknown label operator 'exists'"),
        ("(a)", "unknown label operator ''"),
        ("in()", "'' in 'in\\(\\)' is not a label value"),
        ("in(a,)", "'' in"),
        ("!", "'' in '!' is not a label value"),
        ("!!a", "'!a' in '!!a' is not a label value"),
        ("-a", "is not a label value"),
        ("a-", "is not a label value"),
        ("a b", "is not a label value"),
        ("a" * 64, "is not a label value"),
        ("in(a", "is not a label value"),
    ],
)
def test_texts_that_are_no_condition(text: str, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        parse_condition("k", text)


@pytest.mark.parametrize("key", ["k", "ray.io/gpu-domain", "a.b-c.d/e_f"])
def test_keys(key: str) -> None:
    assert parse_condition(key, "v").key == key


@pytest.mark.parametrize("key", ["", "-k", "a b", "/k", "a/", ".a/k", "a..b/k", "k" * 64, 3])
def test_words_that_are_no_key(key: str) -> None:
    with pytest.raises(ValueError, match="is not a label key"):
        parse_condition(key, "v")


def test_values_that_are_no_text() -> None:
    with pytest.raises(ValueError, match="a label selector is text like v, !v"):
        parse_condition("k", 3)  # type: ignore[arg-type]


# operator | values | whether it holds for k=a, k=b, and a node without k
OPERATORS = [
    ("In", ["a"], "yes no no"),
    ("In", ["a", "b"], "yes yes no"),
    ("NotIn", ["a"], "no yes yes"),
    ("Exists", [], "yes yes no"),
    ("DoesNotExist", [], "no no yes"),
]


@pytest.mark.parametrize(("operator", "values", "holds"), OPERATORS)
def test_operators(operator: str, values: list[str], holds: str) -> None:
    asked = condition("k", operator, values)
    nodes = ({"k": "a"}, {"k": "b"}, {"other": "a"})
    assert " ".join("yes" if asked.holds(labels) else "no" for labels in nodes) == holds


@pytest.mark.parametrize(
    ("operator", "values", "told"),
    [
        ("Near", ["a"], "unknown label operator 'Near'; allowed: In, NotIn, Exists, DoesNotExist"),
        ("In", [], "In takes at least one value"),
        ("NotIn", [], "NotIn takes at least one value"),
        ("Exists", ["a"], "Exists takes no values"),
    ],
)
def test_operators_that_cannot_be(operator: str, values: list[str], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        condition("k", operator, values)


def test_selectors_hold_when_all_conditions_do() -> None:
    both = parse_selector({"a": "x", "b": "!y"})
    assert both.holds({"a": "x"})
    assert not both.holds({"a": "x", "b": "y"})
    assert LabelSelector().holds({})
    assert both & parse_selector({"a": "x"}) == both
    assert parse_selector({"b": "1", "a": "2"}) == parse_selector({"a": "2", "b": "1"})
    assert str(both) == "a=x, b=!y"
    assert str(parse_selector(None)) == "any labels"
