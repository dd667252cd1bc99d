"""The benchmark of many people covers every role and verb."""

from __future__ import annotations

from phalanx.model.principals import Role
from phalanx.model.rights import Verb
from phalanx_benchmarks import people


def test_every_role_asks_for_every_verb() -> None:
    asked = {(asking.role, verb) for asking, verb, _ in people._questions()}
    assert asked == {(role, verb) for role in Role for verb in Verb}
    (row,) = [people._decisions(10)]
    assert row["per cpu s"] > 0
