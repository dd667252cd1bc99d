"""Metrics that programs define are shown with the right values, in limited number, under any
name.
"""

from __future__ import annotations

import pytest

from phalanx.observe.metrics.definitions import (
    COUNTER,
    GAUGE,
    HISTOGRAM,
    MOST_SETS,
    Definition,
    Numbers,
    Sample,
)
from phalanx.observe.metrics.program_metrics import (
    MOST_METRICS,
    RecordedMetrics,
    check_definition,
)

C = Definition(COUNTER, "", ("who",))
G = Definition(GAUGE, "", ("who",))
H = Definition(HISTOGRAM, "", (), (1.0, 2.0))


@pytest.mark.parametrize(
    ("name", "definition", "said"),
    [
        ("", C, "at most 256"),
        ("1x", C, "no digit first"),
        ("a b", C, "letters"),
        ("é", C, "letters"),
        ("x" * 257, C, "at most 256"),
        ("phalanx_jobs", C, "cluster itself"),
        ("a", Definition("thing", ""), "not a kind"),
        ("a", Definition(COUNTER, "", ("le",)), "none of le"),
        ("a", Definition(COUNTER, "", ("__name__",)), "no __ first"),
        ("a", Definition(COUNTER, "", ("a-b",)), "letters"),
        ("a", Definition(COUNTER, "", ("a", "a")), "each once"),
        ("a", Definition(COUNTER, "", tuple(f"t{n}" for n in range(21))), "at most 20"),
        ("a", Definition(HISTOGRAM, "", (), (2.0, 1.0)), "above the last"),
        ("a", Definition(HISTOGRAM, "", (), (float("nan"), 1.0)), "above the last"),
        ("a", Definition(HISTOGRAM, "", (), tuple(map(float, range(101)))), "at most 100"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused(name: str, definition: Definition, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        check_definition(name, definition)
    assert said in RecordedMetrics().take_in(Numbers(name, [], definition), b"p")


def values(numbers: RecordedMetrics) -> dict[tuple[str, ...], float]:
    return {(one.name, *s.labels): s.value for one in numbers.numbers() for s in one.samples}


def test_processes_add_up_and_gauges_go_with_who_set_them_last() -> None:
    node = RecordedMetrics()
    for process in (b"a", b"b"):
        assert not node.take_in(Numbers("c", [Sample(("x",), 2.0)], C), process)
        assert not node.take_in(Numbers("g", [Sample(("x",), 3.0)], G), process)
        assert not node.take_in(Numbers("h", [Sample((), 1.5, [0, 1, 0])], H), process)
    node.take_in(Numbers("g", [Sample(("y",), 9.0)], G), b"a")
    assert values(node) == {("c", "x"): 4, ("g", "x"): 3, ("g", "y"): 9, ("h",): 3}
    node.process_gone(b"a")
    assert values(node) == {("c", "x"): 4, ("g", "x"): 3, ("h",): 3}
    node.process_gone(b"b")
    assert values(node) == {("c", "x"): 4, ("h",): 3}


def test_who_used_a_name_first_says_what_it_is() -> None:
    node = RecordedMetrics()
    node.take_in(Numbers("c", [Sample(("x",), 1.0)], C), b"a")
    why = node.take_in(Numbers("c", [Sample(("x",), 1.0)], G), b"b")
    assert why == (
        "metric c is a counter with the tags ['who'] already, and cannot be a gauge with the tags "
        "['who']: take another name"
    )
    assert values(node) == {("c", "x"): 1}


def test_there_is_an_end_to_names_and_tags() -> None:
    node = RecordedMetrics()
    for number in range(MOST_METRICS):
        assert not node.take_in(Numbers(f"m{number}", [], C), b"a")
    assert "there are 200 already" in node.take_in(Numbers("one_more", [], C), b"a")
    many = [Sample((f"w{number}",), 1.0) for number in range(3 * MOST_SETS)]
    node.take_in(Numbers("m0", many, C), b"a")
    assert sum(values(node).values()) == 3 * MOST_SETS
    assert len(values(node)) == MOST_SETS + 1
    gauges = RecordedMetrics()
    gauges.take_in(Numbers("g", many, G), b"a")
    assert len(values(gauges)) == MOST_SETS
    gauges.process_gone(b"a")
    assert values(gauges) == {}


def test_samples_that_do_not_fit_are_passed_over() -> None:
    node = RecordedMetrics()
    node.take_in(Numbers("h", [Sample((), 1.0, [1]), Sample(("x",), 1.0, [1, 0, 0])], H), b"a")
    node.take_in(Numbers("c", [Sample((), 1.0), Sample(("x" * 300,), 1.0)], C), b"a")
    assert values(node) == {}


def test_what_is_drained_is_forgotten_and_names_stay_known() -> None:
    numbers = RecordedMetrics()
    numbers.family("c", C).sample(("x",)).value += 2
    assert [(one.name, one.definition) for one in numbers.drain()] == [("c", C)]
    assert numbers.drain() == []
    with pytest.raises(ValueError, match="already"):
        numbers.family("c", G)
