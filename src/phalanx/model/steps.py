"""The record of each step of a job: programs that were run at the same time inside the job's
members.

Amounts are in whole resources, durations in seconds, and points in time in seconds since the epoch.
"""

from __future__ import annotations

from typing import Final

import msgspec

from phalanx.model.attempts import AttemptRow, Used, UsedRow

RUNNING: Final = "Running"


class Step(msgspec.Struct, array_like=True, frozen=True, kw_only=True, gc=False):
    """One step, made by one `srun` or `phalanx step`. Each of its programs is a task of the
    step.
    """

    job: str
    """The job's name; for an array task, `NAME[7]`."""
    namespace: str
    submitted: float
    """The time of the job's submission, which distinguishes jobs with the same name."""
    number: int
    """The number of the step, counted from 0. No two steps of a job have the same number, even if
    the job starts again.
    """
    name: str
    user: str
    queue: str
    command: str
    tasks: int
    state: str = RUNNING
    """Running, or one of `model.attempts.STATES`. Terminated means that the step was cut off when
    its member ended.
    """
    exit_code: int | None = None
    """The largest exit code of the step's tasks; None if none is known."""
    nodes: tuple[str, ...] = ()
    """The host name of each node of the step; several nodes may have the same host name."""
    cpus: float = 0.0
    """The CPUs of the members in which the tasks ran. All steps of a job share these CPUs."""
    started: float
    ended: float | None = None
    cpu_s: float = 0.0
    memory_max: float = 0.0
    """The peak memory in bytes of the task that used most; 0 if unknown."""
    memory_sum: float = 0.0
    """The sum of the mean memory in bytes of all measured tasks."""
    measured: int = 0
    """The number of tasks whose memory was measured while they ran."""
    signal: int = 0
    """The signal that ended the task with the largest exit code; 0 if no signal did, or if
    unknown.
    """

    def elapsed_s(self, now: float) -> float:
        """Return the seconds for which the step ran; for a running step, until `now`."""
        return max((now if self.ended is None else self.ended) - self.started, 0.0)

    @property
    def memory_mean(self) -> float | None:
        """The mean memory of a task in bytes; None if unknown."""
        return self.memory_sum / self.measured if self.measured else None

    def with_task(self, code: int | None, used: Used | None, signal: int = 0) -> Step:
        """Return a record of the step with one more ended task."""
        if used is None:
            used = Used()
        is_measured = used.samples > 0
        ends = ((self.exit_code, self.signal), (code, signal))
        known = [(one, number) for one, number in ends if one is not None]
        worst, number = max(known, default=(None, 0))
        return msgspec.structs.replace(
            self,
            exit_code=worst,
            signal=number,
            cpu_s=self.cpu_s + used.cpu_s,
            memory_max=max(self.memory_max, used.memory_max),
            memory_sum=self.memory_sum + used.memory_mean * is_measured,
            measured=self.measured + is_measured,
        )


class StepRow(msgspec.Struct, array_like=True, frozen=True, kw_only=True, gc=False, tag=2):
    """The record of a step that has ended, under a key that never changes."""

    key: bytes
    step: Step


LedgerRow = AttemptRow | UsedRow | StepRow
"""The kinds of rows that the history stores."""
