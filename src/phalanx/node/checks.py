"""The administrator's programs that check whether the node works properly. They run one at a time.

This module is pure: `CheckPrograms` starts and ends the programs. A round runs all checks one after
another. Rounds run when the node joins, regularly while nothing runs here, and before and after a
member of a job that has all GPUs of the node. A check with a bad result closes the node. Then
rounds are repeated regularly until all results are good.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Sequence
from typing import Protocol

import msgspec

from phalanx.node.notes import Note
from phalanx.observe.checks import AFTER, BEFORE, IDLE, JOIN, PENDING, CheckState, bad_checks_text
from phalanx.observe.device_health import BAD, OK, SUSPECT

MAX_SAID = 200
"""The number of characters of a check's output that are reported."""
_STATES = {0: OK, 1: SUSPECT, 2: BAD}


class CheckRules(msgspec.Struct, frozen=True, kw_only=True):
    """The rules for running checks. Times are in seconds."""

    every_s: float = 600.0
    """Seconds between two rounds of checks while the node is idle or a check is bad."""
    limit_s: float = 60.0
    """Seconds after which a running check is killed. Its result then counts as suspect."""


class Exit(msgspec.Struct, frozen=True):
    """How a check ended.

    `code`: the check's exit code; None if the check could not be started. `said`: the last line
    that the check printed, or why it could not be started.
    """

    code: int | None
    said: str


class CheckPrograms(Protocol):
    """Starts and ends check programs."""

    @property
    def names(self) -> Sequence[str]:
        """The names of all checks."""
        ...

    def start(self, name: str, when: str) -> None:
        """Start the check with this name."""
        ...

    def ended(self) -> Exit | None:
        """Return how the check ended; None while it runs. The result is returned once."""
        ...

    def kill(self) -> None:
        """Kill the check and everything that it has started. After that, `ended` returns how it
        ended.
        """
        ...


class NoChecks:
    """The check programs of a node without checks."""

    names: Sequence[str] = ()

    def start(self, name: str, when: str) -> None:
        """Do nothing."""

    def ended(self) -> None:
        """Return None: no check was started."""

    def kill(self) -> None:
        """Do nothing."""


class _Round(msgspec.Struct, eq=False):
    when: str
    left: deque[str]
    done: list[Callable[[str], None]]
    has_begun: bool = False


class Checks:
    """The checks of one node."""

    def __init__(
        self,
        programs: CheckPrograms,
        rules: CheckRules,
        is_idle: Callable[[], bool],
        gpus: Callable[[], float],
        note: Note,
    ) -> None:
        """`is_idle` returns whether no work runs on the node, and `gpus` the number of GPUs that
        the node has now.
        """
        self._programs = programs
        self._rules = rules
        self._is_idle = is_idle
        self._gpus = gpus
        self._note = note
        self._states = {name: CheckState(name, PENDING) for name in programs.names}
        self._rounds: deque[_Round] = deque()
        self._running = ""
        self._kill_at = 0.0
        self._was_killed = False
        self._again_at = float("inf")
        if self._states:
            self._ask(JOIN)

    @property
    def unwell(self) -> list[CheckState]:
        """The checks whose last result is not good."""
        return [one for one in self._states.values() if one.state != OK]

    def before(self, devices: Collection[int], done: Callable[[str], None]) -> bool:
        """Run the checks before a member with these devices starts, and call `done` with the reason
        why it must not start ("" if it may). Returns False, without a call of `done`, if no checks
        are needed: there are none, or the member does not have all GPUs of the node.
        """
        if self._concerns(devices):
            self._ask(BEFORE, done)
            return True
        return False

    def after(self, devices: Collection[int]) -> None:
        """Run the checks after a member with these devices has ended, if it had all GPUs of the
        node.
        """
        if self._concerns(devices):
            self._ask(AFTER)

    def _concerns(self, devices: Collection[int]) -> bool:
        return bool(self._states) and 0 < len(devices) >= self._gpus()

    def _ask(self, when: str, done: Callable[[str], None] | None = None) -> None:
        waits = (one for one in self._rounds if one.when == when and not one.has_begun)
        asked = next(waits, None)
        if asked is None:
            asked = _Round(when, deque(self._states), [])
            self._rounds.append(asked)
        if done is not None:
            asked.done.append(done)

    def tick(self, now: float) -> None:
        """Start the checks that are due, watch running checks, and end those that take too long."""
        if not self._states:
            return
        if self._running:
            self._look(now)
        elif self._rounds:
            self._go_on(now)
        elif now >= self._again_at and (bad_checks_text(self.unwell) or self._is_idle()):
            self._ask(IDLE)

    def _go_on(self, now: float) -> None:
        first = self._rounds[0]
        first.has_begun = True
        if first.left:
            self._running = first.left.popleft()
            self._kill_at, self._was_killed = now + self._rules.limit_s, False
            self._programs.start(self._running, first.when)
            return
        self._rounds.popleft()
        self._again_at = now + self._rules.every_s
        reason = bad_checks_text(self.unwell)
        for done in first.done:
            done(reason)

    def _look(self, now: float) -> None:
        found = self._programs.ended()
        if found is None:
            if now >= self._kill_at and not self._was_killed:
                self._was_killed = True
                self._programs.kill()
            return
        name, self._running = self._running, ""
        before, after = self._states[name], self._judge(name, found)
        self._states[name] = after
        if after != before and (after.state, before.state) != (OK, PENDING):
            self._note(f"check {name} is {after.state}{f': {after.said}' if after.said else ''}")

    def _judge(self, name: str, found: Exit) -> CheckState:
        if self._was_killed:
            said = f"it ran longer than {self._rules.limit_s:g} s"
            return CheckState(name, SUSPECT, said)
        state = _STATES.get(-1 if found.code is None else found.code)
        if state is None:
            how = "it could not be started" if found.code is None else f"exit code {found.code}"
            return CheckState(name, SUSPECT, f"{how}: {found.said}"[:MAX_SAID])
        return CheckState(name, state, "" if state == OK else found.said[:MAX_SAID])
