"""The selector: its chain of filters, packing and ports, and its use as a strategy."""

from __future__ import annotations

import random
from typing import Any

import pytest

from phalanx.scheduler.placement.labels import parse_selector
from phalanx.scheduler.placement.outcome import Placed, Rejection
from phalanx.scheduler.placement.request_class import Request
from phalanx.scheduler.placement.selector.chain import Selection, select
from phalanx.scheduler.placement.selector.settings import GPU_TYPE_LABEL, SelectorSettings
from phalanx.scheduler.placement.selector.strategy import Selector, columns
from phalanx.scheduler.placement.selector.tried import (
    FORGOTTEN_AFTER_S,
    IN_VAIN_AFTER_S,
    TriedPlaces,
)
from phalanx.scheduler.placement.strategy import Asking

from .language import cluster, picks, request, resources

TYPE = GPU_TYPE_LABEL


def chosen(nodes: str, wanted: str = "1GPU", labels: str = "", **given: Any) -> Selection:
    """Return the nodes that the chain of filters leaves, of nodes such as `"a 2GPU; b 1/2GPU"`."""
    settings = SelectorSettings(**{k: given.pop(k) for k in list(given) if k in SETTINGS})
    terms = Asking(**{k: given.pop(k) for k in list(given) if k in ("tried", "beside")})
    view = cluster(nodes.replace(";", "\n"))
    selector = parse_selector(dict(word.split("=") for word in labels.split()))
    asked = Request(resources=resources(wanted), selector=selector)
    rows = columns(view, asked, terms, settings, now=True)
    return select(rows, settings, is_cpu_only="GPU" not in wanted, **given)


SETTINGS = SelectorSettings.__struct_fields__


def names(found: Selection, nodes: str) -> str:
    """Return the names of the candidates in packing order."""
    view = cluster(nodes.replace(";", "\n"))
    return " ".join(view.nodes.states[row].id for row in found.rows)


# nodes | what is asked | candidates
CHAIN: list[tuple[str, dict[str, Any], str]] = [
    ("", {}, ""),
    ("a 2GPU", {}, "a"),
    ("a 0/2GPU", {}, ""),
    ("a 2/4GPU; b 3/4GPU", {}, "a b"),  # the fullest first
    ("a 2/4GPU; b 2GPU", {}, "b a"),  # as full: the smaller machine first
    ("a 2GPU 9CPU; b 2GPU 5CPU", {}, "b a"),
    ("a 2GPU 9memory; b 2GPU 5memory", {}, "b a"),
    ("b 2GPU; a 2GPU", {}, "a b"),  # as full in all: by name
    ("a 8GPU; b 8GPU; c 8GPU", {}, "a b"),  # two for each waiting task
    ("a 8GPU; b 8GPU; c 8GPU", {"waiting": 2}, "a b c"),
    ("a 8GPU; b 8GPU; c 8GPU", {"candidate_factor": 1}, "a"),
    ("a 2GPU; b 8GPU", {"wanted": "3GPU"}, "b"),
    ("a 2GPU 1CPU; b 2GPU 2CPU", {"wanted": "1GPU 2CPU"}, "b"),
    ("a 0.5/1GPU; b 1GPU", {"wanted": "1GPU"}, "b"),
    ("a 2GPU label=K80; b 2GPU", {"labels": "label=K80"}, "a"),
    ("a 2GPU label=K80; b 2GPU", {"labels": "label=M40"}, ""),
    (f"a 2GPU {TYPE}=A; b 2GPU {TYPE}=B; c 2GPU", {"labels": f"{TYPE}=A"}, "a"),
    (f"a 2GPU {TYPE}=A; b 2GPU {TYPE}=B; c 2GPU", {"labels": f"{TYPE}=in(A,B)"}, "a b"),
    ("a 2GPU 1A; b 2GPU", {"wanted": "1GPU 0.001A"}, "a"),
    ("a 2GPU !; b 2GPU", {}, "b"),
    ("a 4GPU; b 3GPU", {"tried": {"b": resources("1GPU")}}, "b a"),  # there is more than was tried
    ("a 4GPU; b 3GPU", {"tried": {"b": resources("3GPU")}}, "a"),
    ("a 4GPU; b 3GPU", {"tried": {"b": resources("3GPU")}, "skip_tried": False}, "b a"),
    ("a 2GPU rack=r1; b 2GPU rack=r2; c 2GPU", {"beside": frozenset({"b"})}, "a b"),
    ("a 2GPU rack=r1; b 2GPU rack=r2", {"beside": frozenset("b"), "same_rack": "prefer"}, "b"),
    ("a 2GPU rack=r1; b 0/2GPU rack=r2", {"beside": frozenset("b"), "same_rack": "prefer"}, "a"),
    ("a 2GPU rack=r1; b 0/2GPU rack=r2", {"beside": frozenset("b"), "same_rack": "require"}, ""),
    ("a 2GPU rack=r1; b 2GPU", {"beside": frozenset({"b"}), "same_rack": "require"}, "a b"),
    ("a 2GPU rack=r1; b 2GPU rack=r2", {"same_rack": "require"}, "a b"),  # it is nowhere yet
    ("a 2GPU row=1; b 2GPU row=2",
     {"beside": frozenset("b"), "same_rack": "require", "rack_label": "row"}, "b"),
    ("c 4CPU; g 4GPU 4CPU", {"wanted": "1CPU"}, "c g"),
    ("c 4CPU; g 4GPU 4CPU", {"wanted": "1CPU", "allow_cpu_jobs_on_gpu_nodes": False}, "c"),
    ("c 4CPU; g 4GPU 4CPU", {"wanted": "1CPU 1GPU", "allow_cpu_jobs_on_gpu_nodes": False}, "g"),
]  # fmt: skip


@pytest.mark.parametrize(("nodes", "asked", "expected"), CHAIN)
def test_the_chain(nodes: str, asked: dict[str, Any], expected: str) -> None:
    assert names(chosen(nodes, **asked), nodes) == expected


def test_each_filter_tells_whom_it_turned_away() -> None:
    nodes = (
        f"a 2GPU z=x {TYPE}=A; b 2GPU z=x {TYPE}=A; c 2GPU z=x; d 2GPU {TYPE}=A;"
        f"e 2GPU z=x {TYPE}=A; f 0/2GPU z=x {TYPE}=A; g 2GPU z=x {TYPE}=A rack=2"
    )
    found = chosen(
        nodes,
        labels=f"z=x {TYPE}=A",
        tried={"e": resources("2GPU")},
        beside=frozenset("g"),
        same_rack="require",
    )
    view = cluster(nodes.replace(";", "\n"))
    told = {
        name: "".join(n.id for n, is_away in zip(view.nodes.states, away, strict=True) if is_away)
        for name, away in found.turned_away.items()
    }
    assert told == {"labels": "d", "gpu type": "c", "tried": "e", "rack": "ab"}
    assert names(found, nodes) == "g"


def test_one_of_the_candidates_is_drawn() -> None:
    found = chosen("a 2GPU; b 2GPU; c 2GPU")
    rng = random.Random(1)
    usual, first = SelectorSettings(), SelectorSettings(pick="fullest")
    assert {found.draw(usual, rng) for _ in range(40)} == {0, 1}
    assert {found.draw(first, rng) for _ in range(40)} == {0}
    assert chosen("a 0/2GPU").draw(usual, rng) is None


class TestStrategy:
    NODES = "a 1/4GPU 4CPU\nb 2/4GPU 4CPU\nc 4GPU 4CPU\nd 4CPU"

    def test_it_draws_among_the_fullest(self) -> None:
        assert picks(Selector(), cluster(self.NODES), request("1GPU"), draws=40) == "a | b"
        assert picks(Selector(), cluster(self.NODES), request("3GPU"), draws=40) == "c"

    def test_what_finds_no_room_waits_for_the_fullest_that_could_have_it(self) -> None:
        view = cluster("a 1/4GPU\nb 3/4GPU\nc 8CPU")
        one = Selector(settings=SelectorSettings(candidate_factor=1))
        assert picks(one, view, request("4GPU")) == "a busy"
        assert picks(one, view, request("4GPU"), "now") == "unavailable"
        assert picks(one, view, request("5GPU")) == "infeasible"

    def test_what_asks_for_nothing_goes_anywhere_that_is_left(self) -> None:
        selector = Selector(settings=SelectorSettings(allow_cpu_jobs_on_gpu_nodes=False))
        view = cluster("a 4GPU\nb 1CPU\nc 2CPU\nd 3CPU")
        assert picks(selector, view, request(""), draws=60) == "b | c | d"

    def test_a_place_that_was_tried_is_waited_for_when_there_is_no_other(self) -> None:
        terms = Asking(tried={"a": resources("1GPU")})
        view = cluster("a 1/4GPU")
        found = Selector().pick(view, request("1GPU"), terms, random.Random(1))
        assert found == Placed(node="a", is_available=False)

    def test_the_no_says_what_each_filter_turned_away(self) -> None:
        strict = SelectorSettings(allow_cpu_jobs_on_gpu_nodes=False, same_rack="require")
        view = cluster(
            f"a 8CPU 4GPU {TYPE}=K80\nb 8CPU rack=1\nc 8CPU rack=2\nd 1CPU rack=2\ne 8CPU !"
        )
        asking = Asking(
            require_available=True, tried={"c": resources("7CPU")}, beside=frozenset({"d"})
        )
        found = Selector(settings=strict).pick(view, request("2CPU"), asking, random.Random(1))
        assert isinstance(found, Rejection)
        assert str(found) == (
            "unavailable: 1 node draining or dead; 1 node with GPUs, kept for work that asks for "
            "GPUs; 1 node tried a moment ago without success; 1 node in other racks than "
            "the rest of its "
            "job; 1 node with at most 1 CPU in total, 2 asked"
        )
        typed = Selector().pick(view, request("1GPU", **{TYPE: "A100"}), Asking(), random.Random(1))
        assert isinstance(typed, Rejection)
        assert "4 nodes without GPUs of the requested type" in str(typed)


class TestTriedPlaces:
    ONE = resources("1GPU")

    def test_what_is_not_given_in_time_was_asked_in_vain_and_is_forgotten_later(self) -> None:
        tried = TriedPlaces[str]()
        tried.asked("t", {"a": self.ONE}, 10.0)
        tried.asked("t", {"a": resources("2GPU")}, 12.0)  # the first time counts
        assert tried.of("t", 10 + IN_VAIN_AFTER_S - 0.1) == {}
        assert tried.is_overdue(10 + IN_VAIN_AFTER_S)
        assert tried.of("t", 10 + IN_VAIN_AFTER_S) == {"a": resources("2GPU")}
        assert not tried.is_overdue(99.0)
        assert tried.of("other", 16.0) == {}
        assert tried.of("t", 10 + IN_VAIN_AFTER_S + FORGOTTEN_AFTER_S) == {}

    def test_what_is_given_or_not_wanted_any_more_was_not_asked_in_vain(self) -> None:
        tried = TriedPlaces[str]()
        tried.asked("t", {"a": self.ONE, "b": self.ONE}, 0.0)
        tried.given("t", "a")
        tried.asked("t", {}, 1.0)
        assert tried.of("t", 99.0) == {}

    def test_refusals_count_at_once_and_add_up(self) -> None:
        tried = TriedPlaces[str]()
        tried.refused("t", "a", self.ONE, 0.0)
        tried.refused("t", "a", self.ONE, 1.0)
        assert tried.of("t", 2.0) == {"a": resources("2GPU")}
        tried.forget("t")
        assert tried.of("t", 2.0) == {}
