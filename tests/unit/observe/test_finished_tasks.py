"""Finished tasks are selected without making a row for each task. The answer is the same as if all
rows were made and filtered.
"""

from __future__ import annotations

import random
from typing import Any

import pytest

from phalanx.observe.state.finished_tasks import offer_finished
from phalanx.observe.state.query import Selection, StateQuery
from phalanx.observe.state.task_rows import finished_task_row
from phalanx.observe.task_journal import TASK_ALONE, About, Run

OWNERS = (b"o" * 16, b"p" * 16)
ABOUTS = (TASK_ALONE, About(function="module.train"), About(actor=b"a" * 16, function="Actor.go"))
QUERIES = {
    "the first rows": StateQuery("tasks", [], 7),
    "all rows": StateQuery("tasks", [], 1_000, True),
    "no rows": StateQuery("tasks", [], 0),
    "the latest": StateQuery("tasks", [], 5, True, is_latest=True),
    "failed ones": StateQuery("tasks", [("state", "=", "failed")], 4, True, is_latest=True),
    "other names": StateQuery("tasks", [("NAME", "!=", "eval"), ("type", "=", "NORMAL_TASK")], 9),
    "one attempt": StateQuery("tasks", [("attempt_number", "=", "1")], 9),
    "without an error": StateQuery("tasks", [("error_type", "=", "none")], 3),
    "counts": StateQuery(
        "tasks", [], 0, count_by=["func_or_class_name", "name", "error_type", "state"]
    ),
    "counts of failed ones": StateQuery("tasks", [("state", "=", "FAILED")], 0, count_by=["name"]),
    "by a column of its own": StateQuery("tasks", [("worker_pid", "=", "none")], 3),
    "counts by owner": StateQuery("tasks", [], 0, count_by=["job_id", "state"]),
}


def runs(seed: int, count: int = 200) -> list[tuple[bytes, Run]]:
    rng = random.Random(seed)
    found = []
    for number in range(count):
        is_failed = rng.random() < 0.3
        began = round(rng.uniform(1_000, 2_000), 3)
        run = Run(
            number=number // 2, name=rng.choice(("train", "eval", "load")),
            state="FAILED" if is_failed else "FINISHED", started=began, ended=began + number,
            worker=b"w" * 16, attempt=number % 2, about=rng.choice(ABOUTS), created=began - 1,
            error=rng.choice(("WORKER_DIED", "TASK_EXECUTION_EXCEPTION")) if is_failed else "",
        )  # fmt: skip
        found.append((rng.choice(OWNERS), run))
    rng.shuffle(found)
    return found


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", QUERIES)
def test_the_answer_is_that_of_all_rows(name: str, seed: int) -> None:
    found, query = runs(seed), QUERIES[name]
    whole, cheap = Selection(query), Selection(query)
    whole.offer_all(finished_task_row(owner, run) for owner, run in found)
    offer_finished(cheap, found, finished_task_row)
    assert cheap.part() == whole.part()


@pytest.mark.parametrize(
    ("name", "made"), [("the first rows", 7), ("the latest", 5), ("failed ones", 4), ("counts", 0)]
)
def test_rows_are_made_only_for_what_is_shown(name: str, made: int) -> None:
    seen: list[Run] = []

    def row_of(owner: bytes, run: Run) -> dict[str, Any]:
        seen.append(run)
        return finished_task_row(owner, run)

    offer_finished(Selection(QUERIES[name]), runs(1), row_of)
    assert len(seen) == made
