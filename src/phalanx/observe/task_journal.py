"""The latest changes of state of a process's tasks, in a ring. Each change is checked against the
table of allowed changes.
"""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Iterator, Sequence
from functools import partial
from typing import NamedTuple, Protocol

import msgspec

from phalanx.model.ids import task_id_bytes
from phalanx.model.lifecycle import FAILED, FINISHED, PENDING_NODE, RUNNING, TASK, IllegalTransition
from phalanx.model.raw_bytes import encoded

KEEP_TRANSITIONS = 50_000
KEEP_RUNS = 20_000
KEEP_UNCOUNTED = 200_000
"""The largest number of attempts that wait to be counted for the metrics. They wait while the
process's loop is busy.
"""


class Tracked(Protocol):
    """A task or a call, with a number and a state of the life cycle."""

    state: str

    @property
    def number(self) -> int:
        """The number of the task or call. If several tasks change state in one step, the number of
        the first.
        """
        ...


class Template(Protocol):
    """The facts that all tasks of one function share."""

    @property
    def name(self) -> str:
        """The name of the tasks."""
        ...

    @property
    def about(self) -> About:
        """The facts for listings."""
        ...


class Attempted(Tracked, Protocol):
    """A task whose attempts the journal records."""

    attempt: int
    created: float
    parent: Parent | None

    @property
    def template(self) -> Template:
        """The facts that the task shares with others."""
        ...


class Answer(Protocol):
    """A worker's answer about an attempt, with the times at which the attempt began and ended."""

    started: float
    ended: float


class About(msgspec.Struct, array_like=True, frozen=True):
    """The facts for listings that many attempts of tasks or calls have in common."""

    actor: bytes = b""
    """The actor whose method is called; "" for a task."""
    function: str = ""
    """The function's name; "" if it equals the task's name."""
    resources: tuple[tuple[str, float], ...] = ()
    group: str = ""
    """The placement group of the tasks or of the actor, in hex."""
    labels: tuple[tuple[tuple[str, str, tuple[str, ...]], ...], ...] = ()
    """Conditions (key, In or NotIn, values) on the labels of nodes, and their fallbacks."""
    is_listed: bool = True
    """Whether listings show these attempts; False with `enable_task_events=False`."""


TASK_ALONE = About()
UNLISTED = About(is_listed=False)


class Run(NamedTuple):
    """One finished attempt.

    Times are in seconds since the epoch, and `worker` is the id of a process. An attempt that
    failed before it ran begins at the time of its failure, and has no worker.
    """

    number: int
    name: str
    state: str
    started: float
    ended: float
    worker: bytes
    attempt: int
    about: About = TASK_ALONE
    created: float = 0.0
    """The time at which the task or call was submitted; 0 if unknown."""
    parent: bytes = b""
    """The id of the task that submitted this task; "" if a driver submitted it."""
    error: str = ""
    """The kind of the failure, under Ray's names; "" if the attempt did not fail."""
    summary: str = ""
    """The class of the exception and the first line of its text; "" without an exception."""


Parent = tuple[bytes, int]
"""(owner, number) of the task that submitted another task."""
RunFields = tuple[int, str, str, float, float, bytes, int, About, float, Parent | None, str, str]
"""The fields of a Run, except that the parent is given as (owner, number). The parent's id is
computed only for the few attempts that are shown.
"""


class Runs:
    """The runs of finished tasks or calls with consecutive numbers, as columns."""

    __slots__ = ("about", "created", "ended", "first", "name", "parent", "started", "worker")

    def __init__(
        self,
        first: int,
        name: str,
        about: About,
        worker: bytes,
        *,
        started: Sequence[float],
        ended: Sequence[float],
        created: Sequence[float],
        parent: Parent | None,
    ) -> None:
        """`created`: the time at which each task was submitted; empty if these times are
        unknown.
        """
        self.first = first
        self.name = name
        self.about = about
        self.worker = worker
        self.started = array("d", started)
        self.ended = array("d", ended)
        self.created = created
        self.parent = parent

    def __len__(self) -> int:
        """Return the number of runs."""
        return len(self.started)

    def run(self, at: int) -> RunFields:
        """Return one run, by its position."""
        return (
            self.first + at, self.name, FINISHED, self.started[at], self.ended[at], self.worker, 0,
            self.about, self.created[at] if self.created else 0.0, self.parent, "", "",
        )  # fmt: skip

    def each(self) -> Iterator[RunFields]:
        """Yield the runs."""
        return map(self.run, range(len(self.started)))


def run_of(fields: RunFields) -> Run:
    """Return an attempt with the id of its parent."""
    parent = fields[9]
    return Run(*fields[:9], b"" if parent is None else task_id_bytes(*parent), *fields[10:])


_encode = partial(encoded, msgspec.msgpack.Encoder().encode)
_decode = msgspec.msgpack.Decoder(list[Run]).decode


def encode_runs(runs: list[Run]) -> bytes:
    """Return attempts as bytes. Messages and tables have them in this form, because most are never
    read.
    """
    return _encode(runs)


def decode_runs(data: bytes) -> list[Run]:
    """Return the attempts in these bytes, as `encode_runs` encoded them; none for invalid bytes."""
    try:
        return _decode(data)
    except msgspec.MsgspecError:
        return []


class TaskJournal:
    """The changes of state of tasks, oldest first, and the finished attempts of these tasks.

    Any thread may read while another thread writes: a reader first makes a copy, in one step.
    """

    def __init__(self) -> None:
        self._transitions: deque[tuple[float, int, str, str, int]] = deque(maxlen=KEEP_TRANSITIONS)
        """(when, number, state, note, count): the task `number` and the next tasks, `count` in all,
        changed to this state.
        """
        self._runs: deque[RunFields | Runs] = deque()
        self._kept = 0
        """The number of attempts in `_runs`."""
        self._uncounted: deque[RunFields | Runs] = deque(maxlen=KEEP_UNCOUNTED)
        self._reported: RunFields | Runs | None = None
        """The last attempts that `unreported_runs` returned."""

    def move(self, task: Tracked, state: str, when: float, note: str = "") -> None:
        """Set the state of `task`, and record the change. Raises IllegalTransition with the task's
        story if the table does not allow it.
        """
        if state not in TASK[task.state]:
            raise IllegalTransition(
                f"task {task.number}: {task.state} -> {state} is not allowed. "
                f"Its story: {self.story(task.number)}"
            )
        task.state = state
        self._transitions.append((when, task.number, state, note, 1))

    def move_all(self, burst: Tracked, count: int, state: str, when: float, note: str = "") -> None:
        """Set the state of `count` tasks with consecutive numbers, as `move` does for one task.

        `burst`: the state of these tasks, and the number of the first one.
        """
        if state not in TASK[burst.state]:
            self.move(burst, state, when)  # raises the error with the first task's story
        if burst.state == PENDING_NODE:
            self._transitions.append((when, burst.number, PENDING_NODE, "", count))
        burst.state = state
        self._transitions.append((when, burst.number, state, note, count))

    def begin(self, task: Tracked, when: float) -> None:
        """Record that `task` was submitted, in its present state."""
        self._transitions.append((when, task.number, task.state, "", 1))

    def ran(
        self,
        task: Attempted,
        answer: Answer,
        worker: bytes,
        error: str | None = None,
        summary: str = "",
    ) -> None:
        """Record the answer of `worker` about an attempt of `task`: the finished run, and the
        task's changes to running and then to finished or failed.

        `error`: the kind of the failure; None if the attempt succeeded. `summary`: the class of the
        exception and the first line of its text; "" without an exception.
        """
        number, template, began, ended = task.number, task.template, answer.started, answer.ended
        if RUNNING not in TASK[task.state]:
            self.move(task, RUNNING, began)  # raises the error with the task's story
        state = task.state = FINISHED if error is None else FAILED
        self._transitions += ((began, number, RUNNING, "", 1), (ended, number, state, "", 1))
        about = template.about
        run = (
            number, template.name, state, began, ended, worker, task.attempt, about, task.created,
            task.parent, error or "", summary,
        )  # fmt: skip
        # the same as add_run, but without a call, because every task comes here
        if about.is_listed:
            self._runs.append(run)
            self._kept += 1
            if self._kept > KEEP_RUNS:
                self._trim()
        self._uncounted.append(run)

    def ran_all(self, burst: Tracked, runs: Runs) -> None:
        """Record the finished runs of tasks with consecutive numbers, as `ran` does for one
        task.
        """
        if RUNNING not in TASK[burst.state]:
            self.move(burst, RUNNING, runs.started[0])  # raises the error with a task's story
        burst.state = FINISHED
        first, count = runs.first, len(runs)
        self._transitions.append((runs.started[0], first, RUNNING, "", count))
        self._transitions.append((runs.ended[-1], first, FINISHED, "", count))
        self.add_runs(runs)

    def add_runs(self, runs: Runs) -> None:
        """Record finished runs without changes of state."""
        if runs.about.is_listed:
            self._runs.append(runs)
            self._kept += len(runs)
            if self._kept > KEEP_RUNS:
                self._trim()
        self._uncounted.append(runs)

    def _trim(self) -> None:
        """Forget the oldest attempts, so that about KEEP_RUNS remain. Attempts that were recorded
        in one step are forgotten in one step.
        """
        runs = self._runs
        while self._kept - _count(runs[0]) >= KEEP_RUNS:
            self._kept -= _count(runs.popleft())

    def add_run(self, run: RunFields) -> None:
        """Record an attempt without changes of state.

        The attempt is a finished call of an actor for which this process has no queue, or an
        attempt that failed before it ran.
        """
        if run[7].is_listed:
            self._runs.append(run)
            self._kept += 1
            if self._kept > KEEP_RUNS:
                self._trim()
        self._uncounted.append(run)

    def take_uncounted(self) -> Sequence[RunFields | Runs]:
        """Return the attempts that finished since the last call, to be counted."""
        found = self._uncounted
        if found:
            self._uncounted = deque(maxlen=KEEP_UNCOUNTED)
        return found

    def unreported_runs(self, at_most: int) -> list[Run]:
        """Return the latest attempts since the last call, oldest first, and at most `at_most` of
        them. They stay in the journal.
        """
        found: list[RunFields] = []
        entries = list(self._runs)
        for entry in reversed(entries):
            if entry is self._reported or len(found) >= at_most:
                break
            found += [entry] if isinstance(entry, tuple) else reversed(list(entry.each()))
        if found:
            self._reported = entries[-1]
        return [run_of(run) for run in reversed(found[:at_most])]

    def runs(self) -> list[Run]:
        """Return finished attempts, oldest first."""
        return [run_of(run) for run in self.fields()]

    def fields(self) -> list[RunFields]:
        """Return the fields of finished attempts, oldest first."""
        found: list[RunFields] = []
        for entry in list(self._runs):
            found += [entry] if isinstance(entry, tuple) else entry.each()
        return found[-KEEP_RUNS:]

    def drain_runs(self) -> list[Run]:
        """Return the attempts that finished since the last call, and remove them."""
        runs = self.runs()
        self._runs.clear()
        self._kept = 0
        return runs

    def story(self, number: int) -> list[tuple[float, str, str]]:
        """Return the changes of one task that are still in the ring, as (time, state, note).

        For tasks that changed state in one step, the time is that of the first or of the last of
        them.
        """
        steps = list(self._transitions)
        return [
            (when, state, note)
            for when, first, state, note, count in steps
            if first <= number < first + count
        ]

    def states(self) -> dict[int, str]:
        """Return the last state of each task that is still in the ring."""
        found: dict[int, str] = {}
        for _, first, state, _, count in list(self._transitions):
            found.update(dict.fromkeys(range(first, first + count), state))
        return found


def _count(entry: RunFields | Runs) -> int:
    return 1 if isinstance(entry, tuple) else len(entry)
