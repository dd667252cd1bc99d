"""The times of a job: how long it may run, when it may start, when it must end, and which rule
applies afterwards.
"""

from __future__ import annotations

from typing import Final

import msgspec

DEFAULT_WARNING_S = 60.0
"""Seconds between a warning signal and the end of the job's time, if the job does not give them; as
in Slurm.
"""
DEFAULT_REQUEUES = 3
LONGEST_S = 1e9
"""The longest duration in seconds that a job may give: 31 years."""
LATEST_S = 253_402_300_799.0
"""The latest wall-clock time, in seconds since the epoch: the end of the year 9999."""

TIMEOUT: Final = "timeout"
PREEMPTED: Final = "preempted"
NODE: Final = "node"
REQUEUE_REASONS: Final = (TIMEOUT, PREEMPTED, NODE)
"""Reasons for which a job that has not failed may wait again: its time limit was reached, it was
preempted, or its node was lost.
"""

SIGNALS: Final = {
    "HUP": 1, "INT": 2, "QUIT": 3, "USR1": 10, "USR2": 12, "ALRM": 14, "TERM": 15, "CONT": 18,
    "URG": 23, "WINCH": 28,
}  # fmt: skip
"""Signals that a job may be sent before its end, by name, with Linux's numbers."""


class Moment(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A point in time (in seconds since the epoch), or a number of seconds after the job's
    submission.
    """

    at: float | None = None
    after_s: float | None = None

    def since(self, submitted: float) -> float:
        """Return the wall-clock time of this moment for a job submitted at `submitted`."""
        return self.at if self.at is not None else submitted + (self.after_s or 0.0)


class WarningSignal(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A signal that members get `before_s` seconds before the job's time ends.

    A member's command and all processes that it started get the signal, except a command that is a
    shell. With `only_shell`, only the command gets the signal.
    """

    name: str
    before_s: float = DEFAULT_WARNING_S
    only_shell: bool = False

    @property
    def number(self) -> int:
        return SIGNALS[self.name]


class Requeue(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The rule by which a job waits again instead of ending. It lists reasons, and exit codes of
    members.

    Preemption and the loss of a node may restart the job any number of times. All other causes may
    restart it at most `most` times.
    """

    reasons: tuple[str, ...] = (PREEMPTED, NODE)
    exit_codes: tuple[int, ...] = ()
    most: int = DEFAULT_REQUEUES


class Timing(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The limits and dates that a job requests; each field that is left out sets no limit."""

    limit_s: float | None = None
    """Seconds that the gang may run after each start; None for no limit."""
    begin: Moment | None = None
    """The earliest time at which the job starts."""
    deadline: Moment | None = None
    """The time at which the job is ended if it still waits or runs."""
    signal: WarningSignal | None = None
    requeue: Requeue | None = None
    is_held: bool = False
    """Whether the job waits until a user releases it."""
