"""What is known of jobs, flows and cron jobs while they live and for a while after: the rows of the
control store."""

from __future__ import annotations

import bisect
from functools import cached_property

import msgspec

from phalanx.errors import JobCommandError as JobCommandError  # noqa: PLC0414 -- read from here
from phalanx.model.jobs.dependencies import AFTER_CORR, Outcome
from phalanx.model.jobs.spec import CronSpec, FlowSpec, JobSpec
from phalanx.model.jobs.states import BLOCKED, FINISHED, PENDING, WAITING

KEEP_TRANSITIONS = 100
WHOLE = -1
"""The index of "all members of the group"."""


class Transition(msgspec.Struct, frozen=True, gc=False):
    """A change of state: when (seconds since the epoch), from what to what, and why."""

    at: float
    old: str
    new: str
    reason: str


class MemberRecord(msgspec.Struct, kw_only=True, eq=False):
    """One member. `attempt` counts its starts; news of an earlier attempt are old."""

    group: str
    index: int
    state: str = WAITING
    attempt: int = 0
    node: str = ""
    exit_code: int | None = None
    reason: str = ""
    started: float | None = None
    ended: float | None = None
    comes_back: bool = False
    """While it is being ended: whether it is to start again after that."""
    retires: bool = False
    """While it is being ended: whether the job has become smaller and forgets it after that."""
    node_deaths: list[float] = []
    """When nodes died under it, in seconds since the epoch, as far as that is held against it."""
    signal: int = 0
    """By which it was ended; 0: by none, or nobody knows."""
    asked_s: float = 0.0
    """What the gang's clock showed when it was asked for: it began then, or later."""

    @property
    def name(self) -> str:
        return f"{self.group}-{self.index}"


class DueAction(msgspec.Struct, frozen=True, kw_only=True):
    """An action whose policy has a timeout. It is dropped when its cause is gone at `at`."""

    at: float
    action: str
    event: str
    version: int
    group: str = ""
    index: int = WHOLE
    attempt: int = 0


class JobRecord(msgspec.Struct, kw_only=True, eq=False, dict=True):
    """One job. `version` counts the times that all its members were ended together; `retries`
    counts restarts that a failure caused."""

    spec: JobSpec
    submitted: float
    request: bytes = b""
    """The id of the request that made it."""
    state: str = PENDING
    reason: str = ""
    version: int = 0
    retries: int = 0
    groups: dict[str, list[MemberRecord]] = {}
    """The members of each group, by index."""
    tally: dict[str, dict[str, int]] = {}
    """How many members of each group are in each state; `set_state` keeps it."""
    restarts: dict[str, int] = {}
    """Processes started again in place, by group, since its members were last made."""
    retired: dict[str, int] = {}
    """The last attempt of any member that retired, by group: who has its name later counts on."""
    due: list[DueAction] = []
    history: list[Transition] = []
    changed: float = 0.0
    started: float | None = None
    """When its minimum first ran."""
    run_started: float | None = None
    """When its gang began to run this time; None while it has not."""
    ran_s: float = 0.0
    """How long its gang had run this time when this was written (see `head.jobs.run_clock`)."""
    run_count: int = 0
    """How often its gang ran before this time."""
    requeues: int = 0
    """How often it was started again by its requeue rule, at a cost."""
    revision: int = 0
    """How often its queue, priority or time was changed: an earlier gang is of no use any more."""
    is_held: bool = False
    """It waits until it is released."""
    set_back_s: float = 0.0
    """The time of day was set back since, to before it was submitted: moments that count from then
    are earlier by so much."""
    stepped_s: float = 0.0
    """By how much the time of day was stepped since it was submitted, as far as a head saw it."""
    outcomes: list[Outcome] = []
    """What has become of its dependencies, as its spec names them."""
    queued: float | None = None
    """When its dependencies came true: it counts as waiting since then."""
    reserved_until: float | None = None
    """Of one that runs in a reservation: when that ends."""
    step_count: int = 0
    """Steps that were given a number."""
    is_warned: bool = False
    """Its members were sent the signal before the end, this time."""
    ends_as: str = ""
    """While it is terminated for a cause that names another end: the state that follows."""
    finished: float | None = None
    is_deleted: bool = False
    """It is forgotten as soon as its members are gone."""

    @cached_property
    def uid(self) -> str:
        """Its name in all tables, which stays: a head asks for it a dozen times a job."""
        return self.spec.uid

    @property
    def is_finished(self) -> bool:
        return self.state in FINISHED

    @property
    def members(self) -> list[MemberRecord]:
        """All members, in the order of the groups and of their indices."""
        return [member for group in self.groups.values() for member in group]

    def member(self, group: str, index: int) -> MemberRecord | None:
        members = self.groups.get(group, [])
        at = bisect.bisect_left(members, index, key=_index)
        return members[at] if at < len(members) and members[at].index == index else None

    def count(self, *states: str, group: str = "") -> int:
        """How many members are in any of `states`."""
        tallies = (self.tally.get(group, {}),) if group else self.tally.values()
        found = 0
        for tally in tallies:  # asked so often that a generator is felt
            for state in states:
                found += tally.get(state, 0)
        return found

    def set_state(self, member: MemberRecord, state: str) -> None:
        """Move a member, and count it anew."""
        tally = self.tally[member.group]
        tally[member.state] -= 1
        tally[state] = tally.get(state, 0) + 1
        member.state = state

    def count_element(self, old: str, new: str, elements: int = 1) -> None:
        """Elements of an array have left one state for another."""
        tally = self.tally[""]
        tally[old] = tally.get(old, 0) - elements
        tally[new] = tally.get(new, 0) + elements

    def replace_group(self, group: str, members: list[MemberRecord]) -> None:
        """Give a group these members, and count them."""
        self.groups[group] = members
        tally = self.tally[group] = dict[str, int]()
        for member in members:
            tally[member.state] = tally.get(member.state, 0) + 1

    @property
    def ahead_s(self) -> float:
        """By how much the time of day is ahead of what it was when the job was submitted, and what
        has really gone by since."""
        return max(self.stepped_s, 0.0)

    def clock_stepped(self, step_s: float) -> None:
        """The time of day was stepped by so much: the moments that lengths of time count from move
        along. Its history stays: that says what the clock showed."""
        self.stepped_s += step_s
        self.submitted += step_s
        self.started = moved(self.started, step_s)
        self.run_started = moved(self.run_started, step_s)
        self.queued = moved(self.queued, step_s)
        self.finished = moved(self.finished, step_s)
        for member in self.members:
            member.started = moved(member.started, step_s)
            member.ended = moved(member.ended, step_s)
        replace = msgspec.structs.replace
        self.due = [replace(one, at=one.at + step_s) for one in self.due]
        self.outcomes = [replace(one, since=moved(one.since, step_s)) for one in self.outcomes]
        element = self.spec.element
        if element is not None:
            self.spec = replace(self.spec, element=replace(element, since=element.since + step_s))

    def note(self, now: float, old: str, new: str, reason: str) -> None:
        """Write a transition down; the oldest ones go."""
        note(self.history, now, old, new, reason)


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
    request: bytes = b""
    """The id of the request that made it."""
    state: str = PENDING
    reason: str = ""
    steps: dict[str, StepRecord] = {}
    history: list[Transition] = []


class CronRecord(msgspec.Struct, kw_only=True, eq=False):
    """One cron job. `seen` is the last scheduled time that was acted on or let go."""

    spec: CronSpec
    seen: float
    request: bytes = b""
    """The id of the request that made it, or changed it last."""
    active: list[str] = []
    """Names of its jobs that have not finished, oldest first."""
    succeeded: list[str] = []
    failed: list[str] = []
    last_scheduled: float | None = None
    last_success: float | None = None
    acted: list[tuple[float, float]] = []
    """Spans of scheduled times, each of which was acted on or let go, in the order in which that
    was: a clock that is set back a little brings none of them again."""
    history: list[Transition] = []


def new_job(spec: JobSpec, now: float) -> JobRecord:
    """A job that was just submitted, with all its members waiting."""
    job = JobRecord(spec=spec, submitted=now, changed=now, is_held=spec.timing.is_held)
    job.outcomes = [Outcome() for _ in (spec.after.needs if spec.after is not None else ())]
    if spec.element is not None:
        job.queued = spec.element.since
    if spec.array is not None:
        is_paired = any(n.kind == AFTER_CORR for n in (spec.after.needs if spec.after else ()))
        job.tally = {"": {BLOCKED if is_paired else WAITING: spec.array.count}}
        return job
    for group in spec.groups:
        members = [MemberRecord(group=group.name, index=i) for i in range(group.replicas)]
        job.replace_group(group.name, members)
    return job


def moved(moment: float | None, step_s: float) -> float | None:
    """A moment after the time of day was stepped by so much; None stays None."""
    return None if moment is None else moment + step_s


def note(history: list[Transition], now: float, old: str, new: str, reason: str) -> None:
    """Write a transition down; the oldest ones go."""
    history.append(Transition(now, old, new, reason))
    del history[:-KEEP_TRANSITIONS]


def _index(member: MemberRecord) -> int:
    return member.index
