"""The history of a process's tasks: a ring of their changes of state, each of which is checked
against the table.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from functools import partial
from typing import NamedTuple, Protocol

import msgspec

from phalanx.model.ids import task_id_bytes
from phalanx.model.lifecycle import FAILED, FINISHED, RUNNING, TASK, IllegalTransition
from phalanx.model.raw_bytes import encoded

KEEP_TRANSITIONS = 50_000
KEEP_RUNS = 20_000
KEEP_UNCOUNTED = 200_000
"""The largest number of attempts that are kept for the metrics while the process's loop has no time
to count them.
"""


class Tracked(Protocol):
    """A task or a call, with a number and a state of the life cycle."""

    number: int
    state: str


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
    """The function's name; "" if it is the same as the task's name."""
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
    """The id of the task that submitted this one; "" if a driver did."""
    error: str = ""
    """The kind of the failure, under Ray's names; "" if the attempt did not fail."""
    summary: str = ""
    """The class of the exception and the first line of its text; "" without one."""


Parent = tuple[bytes, int]
"""(owner, number) of the task that submitted another task."""
RunFields = tuple[int, str, str, float, float, bytes, int, About, float, Parent | None, str, str]
"""The fields of a Run, with the parent as (owner, number). The parent's id is computed only for
attempts that are shown, which are few.
"""


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
    """The changes of state of tasks, oldest first, and their finished attempts.

    Any thread may read while another thread writes: a reader gets a copy, which is made in one
    step.
    """

    def __init__(self) -> None:
        self._transitions: deque[tuple[float, int, str, str]] = deque(maxlen=KEEP_TRANSITIONS)
        self._runs: deque[RunFields] = deque(maxlen=KEEP_RUNS)
        self._uncounted: deque[RunFields] = deque(maxlen=KEEP_UNCOUNTED)
        self._reported: RunFields | None = None
        """The last attempt that `unreported_runs` returned."""

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
        self._transitions.append((when, task.number, state, note))

    def begin(self, task: Tracked, when: float) -> None:
        """Record that `task` was submitted, in its present state."""
        self._transitions.append((when, task.number, task.state, ""))

    def ran(
        self,
        task: Attempted,
        answer: Answer,
        worker: bytes,
        error: str | None = None,
        summary: str = "",
    ) -> None:
        """Record an attempt that `worker` has answered: a run, and the task's changes to running
        and then to finished or failed.

        `error`: the kind of the failure; None if the attempt succeeded. `summary`: the class of the
        exception and the first line of its text; "" without one.
        """
        number, template, began, ended = task.number, task.template, answer.started, answer.ended
        if RUNNING not in TASK[task.state]:
            self.move(task, RUNNING, began)  # raises the error with the task's story
        state = task.state = FINISHED if error is None else FAILED
        self._transitions += ((began, number, RUNNING, ""), (ended, number, state, ""))
        about = template.about
        run = (
            number, template.name, state, began, ended, worker, task.attempt, about, task.created,
            task.parent, error or "", summary,
        )  # fmt: skip
        # the same as add_run, but without a call, because every task comes here
        if about.is_listed:
            self._runs.append(run)
        self._uncounted.append(run)

    def add_run(self, run: RunFields) -> None:
        """Record an attempt without changes of state.

        It is a finished call of an actor for which this process has no queue, or an attempt that
        failed before it ran.
        """
        if run[7].is_listed:
            self._runs.append(run)
        self._uncounted.append(run)

    def take_uncounted(self) -> Sequence[RunFields]:
        """Return the attempts that finished since the last call, to be counted."""
        found = self._uncounted
        if found:
            self._uncounted = deque(maxlen=KEEP_UNCOUNTED)
        return found

    def unreported_runs(self, at_most: int) -> list[Run]:
        """Return the latest attempts since the last call, oldest first, without forgetting them."""
        found: list[RunFields] = []
        for run in reversed(list(self._runs)):
            if run is self._reported or len(found) >= at_most:
                break
            found.append(run)
        if found:
            self._reported = found[0]
        return [run_of(run) for run in reversed(found)]

    def runs(self) -> list[Run]:
        """Return finished attempts, oldest first."""
        return [run_of(run) for run in self.fields()]

    def fields(self) -> list[RunFields]:
        """Return the fields of finished attempts, oldest first."""
        return list(self._runs)

    def drain_runs(self) -> list[Run]:
        """Return the attempts that finished since the last call, and remove them."""
        runs = self.runs()
        self._runs.clear()
        return runs

    def story(self, number: int) -> list[tuple[float, str, str]]:
        """Return the (time, state, note) of each change of one task that is still in the ring."""
        steps = list(self._transitions)
        return [(when, state, note) for when, n, state, note in steps if n == number]

    def states(self) -> dict[int, str]:
        """Return the last state of each task that is still in the ring."""
        return {number: state for _, number, state, _ in list(self._transitions)}
