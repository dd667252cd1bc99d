"""Conditions on the labels of nodes, in the form of Ray's listings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

Condition = tuple[str, str, Sequence[str]]
"""A condition on one label: the label's name, In or NotIn, and the values."""


def label_columns(labels: Sequence[Sequence[Condition]]) -> dict[str, Any]:
    """Return the columns that show the conditions of a task or an actor on the labels of its node.

    `labels` has sets of conditions. The node must meet all conditions of the first set, or all
    conditions of one of the fallback sets that follow.
    """
    selector, *fallbacks = labels or ((),)
    options = [
        {"label_selector": {"label_constraints": [_constraint(one) for one in fallback]}}
        for fallback in fallbacks
    ]
    return {
        "label_selector": {one[0]: _value(one) for one in selector},
        "fallback_strategy": {"options": options} if options else None,
    }


def _value(condition: Condition) -> str:
    _, operator, values = condition
    only = len(values) == 1
    text = values[0] if only else f"in({','.join(values)})"
    return text if operator == "In" else f"!{text}"


def _constraint(condition: Condition) -> dict[str, Any]:
    name, operator, values = condition
    word = "LABEL_OPERATOR_IN" if operator == "In" else "LABEL_OPERATOR_NOT_IN"
    return {"label_key": name, "operator": word, "label_values": list(values)}
