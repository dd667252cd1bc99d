"""Listings: which rows filters select and limits keep, and how the parts of several processes are
joined.
"""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from phalanx.errors import StateQueryError
from phalanx.observe.state.columns import COLUMNS, id_column, trimmed
from phalanx.observe.state.gathering import Gathering
from phalanx.observe.state.query import (
    MAX_COUNTED,
    OTHER,
    Selection,
    StatePart,
    StateQuery,
    check_query,
)
from phalanx.observe.state.summaries import leaked_suspects, summary, summary_query

NODE = "ab" * 28


def task(number, state="RUNNING", attempt=0, **more):
    return {
        "task_id": f"{number:048x}",
        "attempt_number": attempt,
        "state": state,
        "name": "f",
        **more,
    }


def select(query, rows):
    selection = Selection(query)
    selection.offer_all(rows)
    return selection.part()


@pytest.mark.parametrize(
    ("column", "predicate", "value", "is_let_through"),
    [
        ("state", "=", "RUNNING", True),
        ("STATE", "=", "running", True),
        ("state", "!=", "running", False),
        ("state", "=", "FAILED", False),
        ("attempt_number", "=", "0", True),
        ("attempt_number", "=", 1, False),
        ("attempt_number", "=", "zero", False),
        ("actor_id", "=", None, True),
        ("actor_id", "!=", "0123", True),
        ("node_id", "=", NODE, True),
        ("node_id", "=", NODE[:12], True),
        ("node_id", "=", "cd" * 28, False),
        ("is_debugger_paused", "=", "False", True),
        ("is_debugger_paused", "=", "0", True),
        ("is_debugger_paused", "=", True, False),
    ],
)
def test_filters(column, predicate, value, is_let_through):
    row = task(1, node_id=NODE[:12], is_debugger_paused=False)
    query = StateQuery("tasks", [(column, predicate, value)])
    check_query(query)
    part = select(query, [row])
    assert (part.total, part.matched) == (1, int(is_let_through))


@pytest.mark.parametrize(
    ("query", "said"),
    [
        (StateQuery("tsks"), "did you mean 'tasks'"),
        (StateQuery("tasks", limit=10_001), "exceeds the supported limit 10000"),
        (StateQuery("tasks", limit=-1), "limit -1"),
        (StateQuery("tasks", [("state", ">", "A")]), "Available predicates: =, !="),
        (StateQuery("tasks", [("stat", "=", "A")]), "did you mean 'state'"),
        (StateQuery("tasks", [("events", "=", "A")]), "not supported"),
        (StateQuery("tasks", timeout_s=0), "seconds above 0"),
        (StateQuery("tasks", timeout_s=float("nan")), "seconds above 0"),
        (StateQuery("tasks", count_by=["colour"]), "no column 'colour'"),
    ],
)
def test_what_cannot_be_asked(query, said):
    with pytest.raises(ValueError, match=re.escape(said)):
        check_query(query)


def test_what_runs_is_listed_before_what_is_over_and_the_last_attempt_first():
    rows = [
        task(1, "FINISHED", 1),
        task(1, "FAILED", 0),
        task(2, "RUNNING"),
        task(3, "PENDING_ARGS_AVAIL"),
    ]
    part = select(StateQuery("tasks", limit=3), rows)
    listed = [(int(row["task_id"], 16), row["attempt_number"]) for row in part.rows]
    assert listed == [(2, 0), (3, 0), (1, 1)]
    assert (part.total, part.matched) == (4, 4)


@given(
    st.lists(st.tuples(st.integers(0, 30), st.sampled_from(["RUNNING", "FAILED"])), max_size=60),
    st.lists(st.integers(0, 3), min_size=60, max_size=60),
    st.integers(0, 20),
    st.booleans(),
)
def test_parts_of_several_sources_are_the_same_as_one(tasks, sources, limit, is_filtered):
    rows = [task(number, state, attempt) for attempt, (number, state) in enumerate(tasks)]
    filters: list[Any] = [("state", "=", "failed")] if is_filtered else []
    for query in (
        StateQuery("tasks", filters, limit, True),
        StateQuery("tasks", filters, count_by=["state"], sum_of="attempt_number"),
    ):
        whole = Selection(query)
        for source in range(4):
            of_source = [row for row, place in zip(rows, sources, strict=False) if place == source]
            whole.add(select(query, of_source))
        assert whole.part() == select(query, rows)


def test_a_source_keeps_no_more_than_the_limit_however_many_rows_there_are():
    selection = Selection(StateQuery("tasks", limit=5))
    selection.offer_all(task(number) for number in range(40_000))
    assert len(selection._rows) <= 10_010
    part = selection.part()
    assert (len(part.rows), part.matched) == (5, 40_000)
    assert [int(row["task_id"], 16) for row in part.rows] == [0, 1, 2, 3, 4]


def test_counts_are_bounded():
    rows = (task(number, name=str(number)) for number in range(MAX_COUNTED + 7))
    part = select(StateQuery("tasks", count_by=["name"]), rows)
    assert part.counts[0] == ([OTHER], 7, 0)
    assert len(part.counts) == MAX_COUNTED + 1


def test_rows_of_who_says_nonsense_are_listed_and_harm_nobody():
    selection = Selection(StateQuery("tasks", limit=10))
    odd: list[Any] = [{}, {"task_id": None, "attempt_number": "x"}, {"state": 7, "task_id": 3}]
    selection.add(StatePart(odd, 3, 3))
    selection.offer(task(1))
    assert len(selection.part().rows) == 4


def test_rows_have_the_columns_of_their_kind():
    for kind, columns in COLUMNS.items():
        row = trimmed(kind, {id_column(kind): "x", "unknown": 1}, has_detail=False)
        assert list(row) == [column.name for column in columns if not column.is_detail]
        assert row[id_column(kind)] == "x"


# ---- rounds --------------------------------------------------------------------------------------


def begin(rounds, asked, until=10.0):
    ended: list[tuple[dict[bytes, str], list[bytes]]] = []
    numbers: list[int] = []
    rounds.begin(asked, until, numbers.append, lambda *end: ended.append(end))
    return numbers[0], ended


def test_a_round_ends_when_all_have_answered():
    rounds: Gathering[str] = Gathering()
    number, ended = begin(rounds, [b"a", b"b"])
    rounds.answered(b"a", number, "one")
    rounds.answered(b"a", number, "again")
    rounds.answered(b"x", number, "a stranger")
    rounds.answered(b"b", number + 1, "another round")
    assert ended == []
    rounds.answered(b"b", number, "two")
    rounds.answered(b"b", number, "late")
    assert ended == [({b"a": "one", b"b": "two"}, [])]
    assert len(rounds) == 0


def test_a_round_ends_in_time_and_names_who_was_silent():
    rounds: Gathering[str] = Gathering()
    number, ended = begin(rounds, [b"a", b"b"], until=10.0)
    rounds.answered(b"b", number, "two")
    rounds.tick(10.0)
    assert ended == []
    rounds.tick(10.1)
    assert ended == [({b"b": "two"}, [b"a"])]


def test_who_is_gone_is_not_waited_for():
    rounds: Gathering[str] = Gathering()
    number, ended = begin(rounds, [b"a", b"b"])
    rounds.answered(b"b", number, "two")
    rounds.on_process_end(b"a")
    assert ended == [({b"b": "two"}, [])]


def test_nobody_asked_is_an_answer_at_once():
    assert begin(Gathering(), [])[1] == [({}, [])]


# ---- summaries -----------------------------------------------------------------------------------


def test_a_summary_of_tasks_has_ray_s_form():
    rows = [
        task(1, func_or_class_name="f", type="NORMAL_TASK"),
        task(2, "FAILED", func_or_class_name="f", type="NORMAL_TASK"),
        task(3, func_or_class_name="A.m", type="ACTOR_TASK"),
    ]
    found = summary("tasks", select(summary_query("tasks", 1.0), rows))
    assert found["summary"]["f"]["state_counts"] == {"RUNNING": 1, "FAILED": 1}
    assert (found["total_tasks"], found["total_actor_tasks"]) == (2, 1)


def test_a_summary_of_objects_counts_processes_and_sizes_that_are_known():
    rows = [
        {
            "object_id": str(number),
            "object_size": size,
            "call_site": "a.py:1",
            "task_status": "FINISHED",
            "reference_type": "LOCAL_REFERENCE",
            "attempt_number": 0,
            "process_id": process,
            "node_id": "n",
        }
        for number, size, process in ((1, 1 << 20, "p"), (2, -1, "p"), (1, 1 << 20, "q"))
    ]
    found = summary("objects", select(summary_query("objects", 1.0), rows))
    group = found["summary"]["a.py:1"]
    assert (group["total_objects"], group["total_size_mb"]) == (3, 2.0)
    assert (group["total_num_workers"], group["total_num_nodes"]) == (2, 1)
    assert found["callsite_enabled"] is True


def test_there_is_no_summary_of_nodes():
    with pytest.raises(StateQueryError, match="tasks, actors, objects"):
        summary_query("nodes", 1.0)


def test_a_file_that_nobody_holds_is_a_suspect():
    stores = [{"node_id": "n", "files": {"a-1": (10, "a", "a"), "b-1": (99, "b", "a")}}]
    assert leaked_suspects(stores, [{"file": "a-1"}]) == [
        {"file": "b-1", "object_size": 99, "node_id": "n", "owner_id": "a"}
    ]


def test_the_latest_tasks_come_after_those_that_have_not_ended():
    rows = [
        task(n, "FINISHED", start_time_ms=n, end_time_ms=1_000 + (n * 7) % 50) for n in range(50)
    ]
    rows += [task(99), task(98, "PENDING_ARGS_AVAIL")]
    part = select(StateQuery("tasks", limit=5, has_detail=True, is_latest=True), rows)
    assert [row["end_time_ms"] for row in part.rows] == [None, None, 1_049, 1_048, 1_047]
    assert (part.total, part.matched) == (52, 52)
