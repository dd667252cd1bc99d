"""Listings show conditions on labels in the form that Ray uses."""

from __future__ import annotations

from phalanx.observe.state.label_columns import label_columns


def test_conditions_and_what_else_will_do():
    first = [("region", "In", ["west"]), ("zone", "NotIn", ["a", "b"]), ("x", "In", ["1", "2"])]
    found = label_columns([first, [("region", "NotIn", ["east"])]])
    assert found["label_selector"] == {"region": "west", "zone": "!in(a,b)", "x": "in(1,2)"}
    constraint = {
        "label_key": "region",
        "operator": "LABEL_OPERATOR_NOT_IN",
        "label_values": ["east"],
    }
    assert found["fallback_strategy"] == {
        "options": [{"label_selector": {"label_constraints": [constraint]}}]
    }


def test_no_conditions():
    assert label_columns(()) == {"label_selector": {}, "fallback_strategy": None}
