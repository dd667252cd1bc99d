"""The data of the page of one task: its attempts, and the tasks that it has submitted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from phalanx.dashboard.pages.task_stream import function_of
from phalanx.model.lifecycle import INFEASIBLE, PENDING_NODE
from phalanx.model.rows.explanation import Explanation
from phalanx.observe.state.columns import Row
from phalanx.observe.state.query import StateQuery

ATTEMPTS = 100


class Attempt(msgspec.Struct, frozen=True, kw_only=True):
    """One attempt. Times are in seconds since the epoch; unknown times are None."""

    number: int
    state: str
    error: str
    message: str
    """The class and the text of the attempt's exception, if it is known."""
    node: str
    worker: str
    pid: int | None
    created: float | None
    started: float | None
    ended: float | None

    @property
    def waited_s(self) -> float | None:
        """The seconds from the attempt's submission to its start."""
        return _between(self.created, self.started)

    @property
    def ran_s(self) -> float | None:
        """The seconds from the attempt's start to its end."""
        return _between(self.started, self.ended)


class TaskStory(msgspec.Struct, frozen=True, kw_only=True):
    """The page of one task or call."""

    task: str
    function: str
    kind: str
    """NORMAL_TASK, ACTOR_TASK or ACTOR_CREATION_TASK."""
    state: str
    """The state of the last attempt."""
    job: str
    actor: str
    parent: str
    """The id of the task that submitted this task; empty if a driver submitted it."""
    resources: dict[str, float]
    attempts: list[Attempt]
    children: dict[str, dict[str, int]]
    """The number of tasks that the task has submitted, by name and state."""
    why: Explanation | None = None
    """Why the task's actor waits, if the task waits for it."""

    @property
    def is_waiting(self) -> bool:
        """Whether the task waits for a node or for its actor."""
        return self.state in (PENDING_NODE, INFEASIBLE)

    @property
    def what(self) -> str:
        """The kind of the task, in words."""
        if self.kind == "ACTOR_CREATION_TASK":
            return "the start of an actor"
        return "a call of an actor" if self.actor else "a task"


def attempts_of(task: str) -> StateQuery:
    """Return the query for the attempts of a task."""
    return StateQuery("tasks", [("task_id", "=", task)], ATTEMPTS, True, timeout_s=3.0)


def children_of(task: str) -> StateQuery:
    """Return the query for the tasks that a task has submitted."""
    counted = ["name", "state"]
    return StateQuery("tasks", [("parent_task_id", "=", task)], 0, count_by=counted, timeout_s=3.0)


def task_story(
    rows: Sequence[Row], children: Sequence[tuple[list[Any], int, float]]
) -> TaskStory | None:
    """Return the page from the rows of `attempts_of` and the counts of `children_of`. Return None
    without rows, because then no process remembers the task.
    """
    rows = sorted(rows, key=lambda row: int(row.get("attempt_number") or 0))
    if not rows:
        return None
    last = rows[-1]
    counts: dict[str, dict[str, int]] = {}
    for (name, state), number, _ in children:
        counts.setdefault(str(name), {})[str(state)] = number
    return TaskStory(
        task=_text(last, "task_id"),
        function=function_of(last),
        kind=_text(last, "type"),
        state=_text(last, "state"),
        job=_text(last, "job_id"),
        actor=_text(last, "actor_id"),
        parent=_text(last, "parent_task_id"),
        resources=dict(last.get("required_resources") or {}),
        attempts=[_attempt(row) for row in rows],
        children=counts,
    )


def _attempt(row: Row) -> Attempt:
    return Attempt(
        number=int(row.get("attempt_number") or 0),
        state=_text(row, "state"),
        error=_text(row, "error_type"),
        message=_text(row, "error_message"),
        node=_text(row, "node_id"),
        worker=_text(row, "worker_id"),
        pid=row.get("worker_pid"),
        created=_seconds(row.get("creation_time_ms")),
        started=_seconds(row.get("start_time_ms")),
        ended=_seconds(row.get("end_time_ms")),
    )


def _text(row: Row, name: str) -> str:
    value = row.get(name)
    return "" if value is None else str(value)


def _seconds(value: Any) -> float | None:
    return value / 1000 if isinstance(value, int) else None


def _between(begin: float | None, end: float | None) -> float | None:
    return None if begin is None or end is None else max(end - begin, 0.0)
