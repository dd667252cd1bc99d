"""A job between its submission and its end as studied policies see it, and what they answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from phalanx_research.timed.progress import Work
from phalanx_research.timed.workload import GPU, Job, Training, WorkloadError


@dataclass(frozen=True, slots=True)
class Terms:
    """How a job runs until the next event: `pace` is seconds for each second of its work, 1 where
    it is alone; `overhead_s` is what the next event costs it."""

    pace: float
    overhead_s: float


class Live:
    """One job; equal to itself alone.

    `left_s` is its work in seconds alone on its GPUs, `attained_s` the seconds in which it ran.
    `believed_s` is what a scheduler takes for the work left: what its trace states until it has
    run, then what is left in truth.
    """

    __slots__ = (
        "attained_s", "believed_s", "gpus", "job", "left_s", "number", "since", "terms", "work",
    )  # fmt: skip

    def __init__(self, work: Work, number: int) -> None:
        self.work = work
        self.job: Job = work.job
        self.number = number
        """Its place in the order of submission."""
        self.gpus = round(self.job.amount(GPU))
        self.left_s = self.job.work_s
        self.attained_s = 0.0
        training = self.job.training
        stated = None if training is None else training.stated_s
        self.believed_s = self.job.work_s if stated is None else stated
        self.since = self.job.submit_s
        self.terms: Terms | None = None
        """None while it waits."""

    def pass_time(self, now: float) -> None:
        """Bring it up to now, where an event takes place."""
        if self.terms is not None:
            passed = now - self.since
            self.left_s -= max(passed - self.terms.overhead_s, 0.0) / self.terms.pace
            self.attained_s += passed
            self.believed_s = self.left_s
        self.since = now

    @property
    def due(self) -> float:
        """When it will be through if nothing happens before; it runs."""
        assert self.terms is not None
        return self.since + self.left_s * self.terms.pace

    @property
    def training(self) -> Training:
        """Its iterations, which `needs_stages` has looked for."""
        assert self.job.training is not None
        return self.job.training


@dataclass(frozen=True, slots=True)
class Decision:
    """Who runs until the next event, and how many GPUs of each machine somebody holds."""

    terms: dict[Live, Terms]
    held: list[int]


class Policy(Protocol):
    """Decides anew at each event."""

    def decide(self, live: list[Live], now: float) -> Decision:
        """Who of these jobs runs from `now` on. The list is the policy's to keep in an order: new
        jobs come last, and who is through is missing."""

    def leave(self, one: Live) -> None:
        """A job is through."""


def needs_stages(policy: str, jobs: Sequence[Job]) -> None:
    """Raise WorkloadError for a job whose stage times nobody told."""
    for job in jobs:
        stages_s = () if job.training is None else job.training.stages_s
        if len(stages_s) != 3 or not any(stages_s):
            raise WorkloadError(
                f"policy {policy} needs the stage times of every job's iteration, and job "
                f"{job.name} has none: a trace tells them as resource_time_0, _1 and _2"
            )
