"""What is known of flows, cron jobs and queues: things that jobs belong to."""

from __future__ import annotations

import msgspec

from phalanx.model.jobs.records import Transition
from phalanx.model.jobs.spec import CronSpec, FlowSpec
from phalanx.model.jobs.states import PENDING

KEEP_TRANSITIONS = 100


class StepRecord(msgspec.Struct, kw_only=True, eq=False):
    """One step of a flow. `state` is its job's, "" while there is none."""

    state: str = ""
    members: dict[str, dict[str, int]] = {}
    """The members of its job by group and state, for probes."""
    passed: list[int] = []
    """Which of the step's own probes have passed."""


class FlowRecord(msgspec.Struct, kw_only=True, eq=False):
    """One flow, with its steps by name."""

    spec: FlowSpec
    submitted: float
    state: str = PENDING
    reason: str = ""
    steps: dict[str, StepRecord] = {}
    history: list[Transition] = []


class CronRecord(msgspec.Struct, kw_only=True, eq=False):
    """One cron job. `seen` is the last scheduled time that was acted on or let go."""

    spec: CronSpec
    seen: float
    active: list[str] = []
    """Names of its jobs that have not finished, oldest first."""
    succeeded: list[str] = []
    failed: list[str] = []
    last_scheduled: float | None = None
    last_success: float | None = None
    history: list[Transition] = []


def note(history: list[Transition], now: float, old: str, new: str, reason: str) -> None:
    """Write a transition down; the oldest ones go."""
    history.append(Transition(now, old, new, reason))
    del history[:-KEEP_TRANSITIONS]
