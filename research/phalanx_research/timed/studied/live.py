"""Jobs from their submission to their end, for studied policies, and the policies' decisions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from phalanx_research.timed.progress import Work
from phalanx_research.timed.workload import GPU, Job, Training, WorkloadError


@dataclass(frozen=True, slots=True)
class Terms:
    """The speed of a job until the next event. `pace`: the seconds that the job needs per second of
    its work; 1 for a job alone on its GPUs. `overhead_s`: the time that the next event costs the
    job.
    """

    pace: float
    overhead_s: float


class Live:
    """One job of a run. Jobs are compared by identity.

    `left_s` is the work left: the seconds that the job still needs if it is alone on its GPUs.
    `attained_s` is the number of seconds for which the job has run. `believed_s` is the scheduler's
    estimate of `left_s`: before the job has run, the time that the trace states; afterwards, the
    true value.
    """

    __slots__ = (
        "attained_s", "believed_s", "gpus", "job", "left_s", "number", "since", "terms", "work",
    )  # fmt: skip

    def __init__(self, work: Work, number: int) -> None:
        self.work = work
        self.job: Job = work.job
        self.number = number
        """The job's place in the order of submission."""
        self.gpus = round(self.job.amount(GPU))
        self.left_s = self.job.work_s
        self.attained_s = 0.0
        training = self.job.training
        stated = None if training is None else training.stated_s
        self.believed_s = self.job.work_s if stated is None else stated
        self.since = self.job.submit_s
        self.terms: Terms | None = None
        """The pace and the overhead at which the job runs now; None while the job waits."""

    def pass_time(self, now: float) -> None:
        """Advance the job to the present time, at which an event happens."""
        if self.terms is not None:
            passed = now - self.since
            self.left_s -= max(passed - self.terms.overhead_s, 0.0) / self.terms.pace
            self.attained_s += passed
            self.believed_s = self.left_s
        self.since = now

    @property
    def due(self) -> float:
        """Return the time at which the running job finishes if no event happens before."""
        assert self.terms is not None
        return self.since + self.left_s * self.terms.pace

    @property
    def training(self) -> Training:
        """Facts about the job's iterations. `check_stages` has checked that they are known."""
        assert self.job.training is not None
        return self.job.training


@dataclass(frozen=True, slots=True)
class Decision:
    """The jobs that run until the next event, and the number of GPUs that are held on each
    machine.
    """

    terms: dict[Live, Terms]
    held: list[int]


class Policy(Protocol):
    """A policy that decides again at each event."""

    def decide(self, live: list[Live], now: float) -> Decision:
        """Decide which of these jobs run from `now` on. The policy may reorder the list, and the
        order is kept: new jobs are appended, and finished jobs are removed.
        """

    def leave(self, one: Live) -> None:
        """Record that a job has finished."""


def check_stages(policy: str, jobs: Sequence[Job]) -> None:
    """Raise WorkloadError for a job whose stage times are unknown."""
    for job in jobs:
        stages_s = () if job.training is None else job.training.stages_s
        if len(stages_s) != 3 or not any(stages_s):
            raise WorkloadError(
                f"policy {policy} needs the stage times of every job's iteration, and job "
                f"{job.name} has none: a trace has them in the columns resource_time_0, _1 and _2"
            )
