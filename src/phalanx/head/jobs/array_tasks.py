"""The state of each array task of an array, in a few bytes per task.

Waiting and ended tasks are kept only here. A live task has a job like any other, and is only marked
as live here.
"""

from __future__ import annotations

from array import array
from typing import Final

import msgspec

from phalanx.model.exit_codes import SIGNALLED
from phalanx.model.jobs import states as st
from phalanx.model.jobs.arrays import ArraySpec, Indices
from phalanx.model.jobs.records import JobRecord
from phalanx.model.member_logs import for_any_task, for_task

LIVES: Final = "Lives"
GRANTED: Final = "Granted"
"""The state of a task in a run (see `array_runs`). Listings and the store show such a task as
waiting.
"""
STATES: Final = (
    st.WAITING, LIVES, st.COMPLETED, st.FAILED, st.TERMINATED, st.TIMED_OUT, st.DEADLINE,
    st.DEPENDENCY_FAILED, st.BLOCKED, GRANTED,
)  # fmt: skip
"""All states. The index of a state is the number that is stored for it."""
_NUMBER = {state: number for number, state in enumerate(STATES)}
COUNTED_AS: Final = {
    st.WAITING: st.WAITING,
    GRANTED: st.WAITING,
    st.BLOCKED: st.BLOCKED,
    st.COMPLETED: st.SUCCEEDED,
    st.FAILED: st.FAILED,
    st.TIMED_OUT: st.FAILED,
    st.DEADLINE: st.FAILED,
    st.TERMINATED: st.ENDED,
    st.DEPENDENCY_FAILED: st.ENDED,
}
"""The state as which an array task is counted in the array's record, by its state here."""
_SHOWN_AS = {_NUMBER[GRANTED]: _NUMBER[st.WAITING]}
_AS_WAITING = bytes(_SHOWN_AS.get(number, number) for number in range(256))
NO_CODE: Final = -1
SIGNALLED_CODES: Final = 256
"""The base of the stored codes of signals: a signal is stored as this base plus its number. Exit
codes are smaller than the base.
"""
PART = 256
"""The number of array tasks in one row of the store."""

Logs = dict[str, list[tuple[str, str]]]

_encode = msgspec.msgpack.Encoder().encode
_decode_logs = msgspec.msgpack.Decoder(Logs).decode


class ArrayTaskRows(msgspec.Struct, kw_only=True, eq=False):
    """Part `number` of an array's tasks, as stored."""

    array: str
    number: int
    states: bytes
    codes: list[int]
    starts: bytes
    places: list[int]
    """For each task, the index of its entry in `logs`."""
    logs: list[bytes]


class Ended(msgspec.Struct, frozen=True, kw_only=True):
    """The facts about an array task that has ended or is waiting."""

    state: str
    exit_code: int | None
    signal: int
    starts: int
    logs: Logs


class ArrayTasks:
    """The tasks of one array, by position."""

    def __init__(self, spec: ArraySpec) -> None:
        self.indices = Indices(spec.ranges)
        count = len(self.indices)
        self._states = bytearray(count)
        self._codes = array("h", [NO_CODE]) * count
        self._starts = bytearray(count)
        self._places = array("I", [0]) * count
        self._logs: list[bytes] = [_encode({})]
        self._number_of_logs: dict[bytes, int] = {self._logs[0]: 0}
        """The index in `logs` of each entry. Equal entries are kept once: the log files of most
        tasks differ only by the task's index in their names.
        """
        self._first = 0
        """No task at a position below this number waits."""

    def block(self) -> None:
        """Mark all tasks as waiting for tasks of other arrays."""
        self._states = bytearray([_NUMBER[st.BLOCKED]]) * len(self._states)

    def next_blocked(self, position: int) -> int | None:
        """Return the first position from `position` on whose task waits for a task of another
        array.
        """
        found = self._states.find(_NUMBER[st.BLOCKED], position)
        return None if found < 0 else found

    def state(self, position: int) -> str:
        """Return WAITING, BLOCKED, GRANTED, LIVES, or how the task ended."""
        return STATES[self._states[position]]

    def next_waiting(self) -> int | None:
        """Return the first position whose task waits."""
        self._first = self._states.find(0, self._first)
        if self._first < 0:
            self._first = len(self._states)
            return None
        return self._first

    def waiting(self) -> int:
        """Return how many tasks are waiting."""
        return self._states.count(0)

    def begin(self, position: int) -> None:
        """Mark a task as live: from now on it has a job of its own."""
        self._states[position] = _NUMBER[LIVES]

    def grant(self, position: int) -> None:
        """Mark a task as part of a run."""
        self._states[position] = _NUMBER[GRANTED]

    def wait(self, position: int) -> None:
        """Mark a task as waiting, as before it began."""
        self._states[position] = 0
        self._first = min(self._first, position)

    def end(
        self, position: int, state: str, code: int | None, signal: int, starts: int, logs: Logs
    ) -> None:
        """Mark a task as ended."""
        self._states[position] = _NUMBER[state]
        kept = None if code is None else SIGNALLED_CODES + signal if signal else code
        self._codes[position] = NO_CODE if kept is None else max(0, min(kept, 2**15 - 1))
        self._starts[position] = min(starts, 255)
        self._places[position] = self._number(_encode(_without(logs, self.indices.at(position))))

    def _number(self, logs: bytes) -> int:
        number = self._number_of_logs.setdefault(logs, len(self._logs))
        if number == len(self._logs):
            self._logs.append(logs)
        return number

    def ended(self, position: int) -> Ended:
        """Return the facts about a task that is not live."""
        code, index = self._codes[position], self.indices.at(position)
        known = _decode_logs(self._logs[self._places[position]])
        signal = max(code - SIGNALLED_CODES, 0)
        if signal:
            code = SIGNALLED + signal
        state = self.state(position)
        return Ended(
            state=st.WAITING if state == GRANTED else state,
            exit_code=None if code == NO_CODE else code,
            signal=signal,
            starts=self._starts[position],
            logs={
                member: [(node, for_task(path, index)) for node, path in files]
                for member, files in known.items()
            },
        )

    def counts(self) -> dict[str, int]:
        """Return how many tasks are in each state."""
        return {state: self._states.count(number) for number, state in enumerate(STATES)}

    def is_like(self, one: int, other: int) -> bool:
        """Whether two tasks have the same state, exit code and number of starts. Such tasks share a
        row in listings.
        """
        kept = (self._codes, self._starts)
        states = [_SHOWN_AS.get(self._states[at], self._states[at]) for at in (one, other)]
        return states[0] == states[1] and all(values[one] == values[other] for values in kept)

    # ---- the store ---------------------------------------------------------------------------

    def part(self, uid: str, number: int) -> ArrayTaskRows:
        """Return a part of the tasks for the store."""
        here = slice(number * PART, (number + 1) * PART)
        used = sorted(set(self._places[here]))
        local = {place: n for n, place in enumerate(used)}
        return ArrayTaskRows(
            array=uid,
            number=number,
            states=bytes(self._states[here].translate(_AS_WAITING)),
            codes=self._codes[here].tolist(),
            starts=bytes(self._starts[here]),
            places=[local[place] for place in self._places[here]],
            logs=[self._logs[place] for place in used],
        )

    def load(self, rows: ArrayTaskRows) -> None:
        """Restore one stored part of the tasks."""
        begin = rows.number * PART
        here = slice(begin, begin + len(rows.states))
        self._states[here] = rows.states
        self._codes[here] = array("h", rows.codes)
        self._starts[here] = rows.starts
        numbers = [self._number(logs) for logs in rows.logs]
        self._places[here] = array("I", [numbers[place] for place in rows.places])


def _without(logs: Logs, index: int) -> Logs:
    """Return the log files with a placeholder for the task's index in their paths, so that the
    entries of most tasks are equal.
    """
    return {
        member: [(node, for_any_task(path, index)) for node, path in files]
        for member, files in logs.items()
    }


def end_of(job: JobRecord) -> tuple[int | None, int, int]:
    """Return (exit code, signal, number of starts). The code and the signal are those of the first
    failed member or, if none failed, of the first ended member. The number of starts is that of the
    member that was started most often.
    """
    ended = [member for member in job.members if member.exit_code is not None]
    one = next((member for member in ended if member.exit_code), ended[0] if ended else None)
    starts = max((member.attempt for member in job.members), default=0)
    return (None, 0, starts) if one is None else (one.exit_code, one.signal, starts)
