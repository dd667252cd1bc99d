"""The data of the page Tasks and actors: the stream of tasks, counts, and errors by kind."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from phalanx.dashboard.pages.actors import ActorList
from phalanx.dashboard.pages.task_stream import STREAM, Stream, function_of, stream
from phalanx.model.lifecycle import FAILED, FINISHED, RUNNING
from phalanx.observe.state.query import StateAnswer, StateQuery

SHOWN = 200


_PROGRESS = {
    FINISHED: "done", FAILED: "failed", "DEAD": "done", RUNNING: "runs", "ALIVE": "runs",
}  # fmt: skip
"""The kind of a part of a progress bar, by state. States that are not listed belong to the part
`waits`.
"""


class Count(msgspec.Struct, frozen=True, kw_only=True):
    """Tasks of a function, or actors of a class, by state."""

    name: str
    states: dict[str, int]

    @property
    def all(self) -> int:
        """The number of tasks or actors in all states."""
        return sum(self.states.values())

    @property
    def progress(self) -> list[tuple[str, float, float]]:
        """The parts of a bar, in hundredths of its width, as (kind, begin, width). The kinds are
        done, failed, runs and waits; a kind without tasks has no part.
        """
        counts: dict[str, int] = dict.fromkeys(("done", "failed", "runs", "waits"), 0)
        for state, count in self.states.items():
            counts[_PROGRESS.get(state, "waits")] += count
        parts, begin = [], 0.0
        for kind, count in counts.items():
            width = 100 * count / self.all
            if count:
                parts.append((kind, round(begin, 2), round(width, 2)))
            begin += width
        return parts


class ErrorKind(msgspec.Struct, frozen=True, kw_only=True):
    """Failed attempts of one function with one kind of error."""

    function: str
    error: str
    attempts: int
    last: float | None
    """The end of the last attempt that failed in this way, in seconds since the epoch; None if the
    attempt is not among the last failures.
    """
    task: str
    """The id of the last attempt's task."""
    message: str
    """The class and the text of that task's exception, if it is known."""


class WorkPage(msgspec.Struct, frozen=True, kw_only=True):
    """The page: the stream of tasks, counts of tasks and actors, errors by kind, and the processes
    that gave no answer.
    """

    stream: Stream
    tasks: list[Count]
    errors: list[ErrorKind]
    """The kinds of errors, the most frequent first."""
    actors: list[Count]
    each: ActorList | None
    """The table of actors; None if a record has no answer about them."""
    silent: list[str]


TASKS = StateQuery(
    "tasks", [], 0, count_by=["func_or_class_name", "name", "error_type", "state"], timeout_s=3.0
)
FAILURES = StateQuery("tasks", [("state", "=", FAILED)], SHOWN, True, timeout_s=3.0, is_latest=True)
ACTORS = StateQuery("actors", [], 0, count_by=["class_name", "state"], timeout_s=3.0)
QUERIES = (TASKS, STREAM, FAILURES, ACTORS)


def work(
    tasks: StateAnswer,
    last: StateAnswer,
    failures: StateAnswer,
    actors: StateAnswer,
    names: Mapping[str, str],
    now: float,
    asked: str = "",
    each: ActorList | None = None,
) -> WorkPage:
    """Return the page from the answers to `QUERIES`. `names` has the nodes' names by id, `now` is
    in seconds since the epoch, `asked` is the range of the stream's axis, and `each` the table of
    actors.
    """
    return WorkPage(
        stream=stream(last.part.rows, last.part.total, names, now, asked),
        tasks=_counted(tasks, 1),
        errors=_errors(tasks, failures),
        actors=_counted(actors, 0),
        each=each,
        silent=sorted({*tasks.silent, *last.silent, *actors.silent}),
    )


def _counted(answer: StateAnswer, name_at: int) -> list[Count]:
    found: dict[str, dict[str, int]] = {}
    for values, rows, _ in answer.part.counts:
        name, state = _text(values[name_at]), _text(values[-1])
        states = found.setdefault(name, {})
        states[state] = states.get(state, 0) + rows
    counts = [Count(name=name, states=states) for name, states in found.items()]
    return sorted(counts, key=lambda one: (-one.all, one.name))[:SHOWN]


def _errors(tasks: StateAnswer, failures: StateAnswer) -> list[ErrorKind]:
    counts: dict[tuple[str, str], int] = {}
    for (_, name, error, state), rows, _ in tasks.part.counts:
        if state == FAILED:
            kind = (_text(name), _text(error))
            counts[kind] = counts.get(kind, 0) + rows
    last: dict[tuple[str, str], tuple[float | None, str, str]] = {}
    for row in failures.part.rows:  # the last one comes first
        ended = row.get("end_time_ms")
        when = ended / 1000 if isinstance(ended, int) else None
        kind = (function_of(row), _text(row.get("error_type")))
        said = str(row.get("error_message") or "")
        last.setdefault(kind, (when, str(row.get("task_id") or ""), said))
    found = []
    for (function, error), attempts in counts.items():
        when, task, message = last.get((function, error), (None, "", ""))
        found.append(
            ErrorKind(
                function=function,
                error=error,
                attempts=attempts,
                last=when,
                task=task,
                message=message,
            )
        )
    return sorted(found, key=lambda one: (-one.attempts, one.function, one.error))[:SHOWN]


def _text(value: Any) -> str:
    return "?" if value is None else str(value)
