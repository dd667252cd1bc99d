"""Labels of nodes, and the conditions that a request puts on them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

Operator = Literal["in", "not in", "exists", "does not exist"]

OPERATORS: Mapping[str, Operator] = {
    "In": "in",
    "NotIn": "not in",
    "Exists": "exists",
    "DoesNotExist": "does not exist",
}
"""The operators of conditions, by the names that strategies for node labels use."""

NODE_LABEL = "ray.io/node-id"
"""A label that every node has. Its value is the node's id."""

_CALL = re.compile(r"(!?)([^()!]*)\((.*)\)")
_VALUE = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?")
_PREFIX = re.compile(r"(?=.{1,253}$)[A-Za-z0-9][A-Za-z0-9_-]*(\.[A-Za-z0-9][A-Za-z0-9_-]*)*")


@dataclass(frozen=True, kw_only=True)
class LabelCondition:
    """A condition on one label. `values` are sorted; they are empty for "exists" and "does not
    exist".
    """

    key: str
    operator: Operator
    values: tuple[str, ...] = ()

    def holds(self, labels: Mapping[str, str]) -> bool:
        """Whether a node with these labels meets the condition. A node without the label meets
        `not in`, and does not meet `in`.
        """
        present = labels.get(self.key)
        if self.operator == "in":
            return present in self.values
        if self.operator == "not in":
            return present not in self.values
        return (present is not None) is (self.operator == "exists")

    def __str__(self) -> str:
        if not self.values:
            return f"{self.key} {self.operator}"
        sign = "" if self.operator == "in" else "!"
        if len(self.values) == 1:
            return f"{self.key}={sign}{self.values[0]}"
        return f"{self.key}={sign}in({','.join(self.values)})"


@dataclass(frozen=True)
class LabelSelector:
    """Conditions, all of which a node must meet. A selector without conditions accepts every
    node.
    """

    conditions: tuple[LabelCondition, ...] = ()

    def holds(self, labels: Mapping[str, str]) -> bool:
        """Whether the selector accepts a node with these labels."""
        return all(condition.holds(labels) for condition in self.conditions)

    def __and__(self, other: LabelSelector) -> LabelSelector:
        """Return a selector with both sets of conditions."""
        added = (c for c in other.conditions if c not in self.conditions)
        return LabelSelector((*self.conditions, *added))

    def __str__(self) -> str:
        return ", ".join(map(str, self.conditions)) or "any labels"


ANY_NODE = LabelSelector()


def is_value(text: str) -> bool:
    """Whether the text can be a label's value.

    A value consists of 1 to 63 letters, digits, `-`, `_` and `.`, and begins and ends with a letter
    or digit.
    """
    return _VALUE.fullmatch(text) is not None


def parse_selector(texts: Mapping[str, str] | None) -> LabelSelector:
    """Return the selector that a mapping such as `{"zone": "in(a,b)", "gpu": "!T4"}` stands for;
    see `parse_condition`.
    """
    texts = texts or {}
    return LabelSelector(tuple(parse_condition(key, texts[key]) for key in sorted(texts)))


def parse_condition(key: str, text: str) -> LabelCondition:
    """Return the condition that a text stands for: `v`, `!v`, `in(a,b)` or `!in(a,b)`. An empty
    text requires the value "". Raises ValueError for an empty list, an operator other than `in`, an
    invalid key, and an invalid value (see `is_value`).
    """
    prefix, slash, name = key.rpartition("/") if isinstance(key, str) else ("", "", "")
    if not _VALUE.fullmatch(name) or (slash and not _PREFIX.fullmatch(prefix)):
        raise ValueError(
            f"{key!r} is not a label key: 1 to 63 letters, digits, '-', '_' and '.', optionally "
            f"after a domain and a slash as in ray.io/gpu-domain"
        )
    if not isinstance(text, str):
        raise ValueError(f"{key}: a label selector is text like v, !v, in(a,b), not {text!r}")
    text = text.strip()
    if not text:
        return LabelCondition(key=key, operator="in", values=("",))
    call = _CALL.fullmatch(text)
    if call:
        negated, name, listed = call.groups()
        if name.strip() != "in":
            raise ValueError(
                f"{key}: unknown label operator {name.strip()!r} in {text!r}; "
                f"write v, !v, in(a,b) or !in(a,b)"
            )
        values = [value.strip() for value in listed.split(",")]
    else:
        negated, values = ("!", [text[1:].strip()]) if text.startswith("!") else ("", [text])
    for value in values:
        if not is_value(value):
            raise ValueError(
                f"{key}: {value!r} in {text!r} is not a label value: 1 to 63 letters, digits, "
                f"'-', '_' and '.', beginning and ending with a letter or digit"
            )
    return LabelCondition(
        key=key, operator="not in" if negated else "in", values=tuple(sorted(set(values)))
    )


def condition(key: str, operator: str, values: Iterable[str] = ()) -> LabelCondition:
    """Return a condition with the operator In, NotIn, Exists or DoesNotExist. Raises ValueError for
    any other operator, for In or NotIn without values, and for values with Exists or DoesNotExist.
    """
    if operator not in OPERATORS:
        raise ValueError(f"unknown label operator {operator!r}; allowed: {', '.join(OPERATORS)}")
    listed = tuple(sorted(set(values)))
    if bool(listed) is not (operator in ("In", "NotIn")):
        needs = "at least one value" if not listed else "no values"
        raise ValueError(f"{key}: {operator} takes {needs}")
    return LabelCondition(key=key, operator=OPERATORS[operator], values=listed)
