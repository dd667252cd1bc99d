"""Patterns that users write and texts that are searched: no choice makes the search slow.

With an algorithm that takes 2^n steps, each search here would never end; with n^2 steps it would
take minutes. A test of this file that does not end has failed.
"""

from __future__ import annotations

import pytest

from phalanx.manifests.hypernodes import HyperNode, Member, resolve
from phalanx.manifests.patterns import MAX_PATTERN, compiled, matches
from phalanx.manifests.quantities import quantity
from phalanx.manifests.reading import read_manifests
from phalanx.model.nearest import nearest
from phalanx.scheduler.cycle.arguments import quantity as amount
from phalanx.scheduler.cycle.arguments import seconds
from phalanx.scheduler.placement.labels import parse_condition

LONG = 1_000_000


@pytest.mark.parametrize(
    "pattern", ["([0-9a-z]+)+!", "(a|a)*b", "(a*)*b", "(.*.*)*x", "(a?){500}a{500}", "(.*a){300}b"]
)
def test_a_domains_pattern_takes_linear_time(pattern) -> None:
    name = "a" * 253
    domain = HyperNode(name="s", tier=1, members=(Member(kind="Node", pattern=pattern),))
    (found,) = resolve([domain], {name: {}}, {})
    assert found.nodes == ()


@pytest.mark.parametrize(
    "pattern", ["(", "a(?=b)", r"(a)\1", "a{1001}", "a" * (MAX_PATTERN + 1), "(.{999}){2}", "[b-a]"]
)
def test_a_pattern_that_is_none_is_refused_and_matches_nothing(pattern) -> None:
    with pytest.raises(ValueError, match=r"pattern|regular expression"):
        compiled(pattern)
    assert not matches(pattern, "a")  # one that an earlier version kept
    text = "{kind: HyperNode, metadata: {name: s}, spec: {tier: 1, members: [{type: Node, "
    text += f"selector: {{regexMatch: {{pattern: '{pattern}'}}}}}}]}}}}"
    assert [f.code for f in read_manifests(text)[1].errors] == ["regex_invalid"]


def test_a_pattern_is_searched_for_in_the_name() -> None:
    assert matches("^node-[0-9]+$", "node-12")
    assert matches("e-1", "node-12")
    assert not matches("^node-[0-9]+$", "node-12\n")
    assert not matches("^node$", "n\u043ede")


def test_long_texts_in_fields_take_no_longer_than_reading_them() -> None:
    assert seconds("9" * LONG) is None
    assert seconds("1h" * LONG) is None
    assert amount("1" + "." + "9" * LONG) is None
    with pytest.raises(ValueError, match="amount"):
        quantity("9" * LONG)
    with pytest.raises(ValueError, match="label"):
        parse_condition("zone", "!" + " " * LONG + "(")
    with pytest.raises(ValueError, match="label"):
        parse_condition("zone", "in" + " " * LONG + "x")
    assert nearest("a" * LONG, ["aa"]) == ""
    fields = ", ".join(f"f{i}: 1" for i in range(20_000))
    assert (
        len(
            read_manifests(f"{{kind: Queue, metadata: {{name: q}}, spec: {{{fields}}}}}")[
                1
            ].warnings
        )
        == 20_001
    )
