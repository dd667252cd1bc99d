"""The records of jobs, flows and cron jobs. The store has one row for each."""

from __future__ import annotations

import bisect
from functools import cached_property

import msgspec

from phalanx.errors import JobCommandError as JobCommandError  # noqa: PLC0414 -- read from here
from phalanx.model.ids import JobId
from phalanx.model.jobs.dependencies import AFTER_CORR, Outcome
from phalanx.model.jobs.spec import CronSpec, FlowSpec, JobSpec
from phalanx.model.jobs.states import BLOCKED, FINISHED, PENDING, WAITING

KEEP_TRANSITIONS = 100
WHOLE = -1
"""The index that means all members of the group."""


class Transition(msgspec.Struct, frozen=True, gc=False):
    """A change of state: its time (seconds since the epoch), the old and the new state, and the
    reason.
    """

    at: float
    old: str
    new: str
    reason: str


class MemberRecord(msgspec.Struct, kw_only=True, eq=False):
    """A member of a job.

    `attempt` counts the member's starts; a message about an earlier attempt is out of date and is
    ignored.
    """

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
    """Whether a member that is now being ended starts again afterwards."""
    retires: bool = False
    """Whether a member that is now being ended is removed afterwards, because the job has
    shrunk.
    """
    node_deaths: list[float] = []
    """The times (seconds since the epoch) of the deaths of nodes that count against the member."""
    parents_killed: int = 0
    """The number of deaths in `node_deaths` in which only the member's parent process was killed,
    not the node.
    """
    signal: int = 0
    """The signal that ended the member; 0 if no signal did, or if unknown."""
    asked_s: float = 0.0
    """The value of the gang's clock (see `head.jobs.run_clock`) when the head requested the
    member's last attempt. The attempt never starts before the clock has that value.
    """
    crashes: int = 0
    """How often in a row the member crashed soon after its start (see `head.jobs.resting`)."""
    rests_until: float | None = None
    """The earliest time at which a crashed member starts again on its node, in seconds since the
    epoch.
    """
    is_preparing: bool = False
    """Whether a pending member has its place, and its environment is being prepared there."""

    @property
    def name(self) -> str:
        return f"{self.group}-{self.index}"


class DueAction(msgspec.Struct, frozen=True, kw_only=True):
    """An action of a policy with a timeout. The head takes the action at the time `at`, unless the
    action's cause has ended before.
    """

    at: float
    action: str
    event: str
    version: int
    group: str = ""
    index: int = WHOLE
    attempt: int = 0


class JobRecord(msgspec.Struct, kw_only=True, eq=False, dict=True):
    """One job.

    `version` counts how often all members were ended together; `retries` counts the restarts that a
    failure caused.
    """

    spec: JobSpec
    submitted: float
    recorded: float | None = None
    """The time of submission as the clock then showed it; None in records of earlier versions."""
    request: bytes = b""
    """The id of the request that created the record."""
    state: str = PENDING
    reason: str = ""
    version: int = 0
    retries: int = 0
    groups: dict[str, list[MemberRecord]] = {}
    """The members of each group, by index."""
    tally: dict[str, dict[str, int]] = {}
    """The number of members in each state, by group; `set_state` updates it."""
    restarts: dict[str, int] = {}
    """The number of processes of each group that were restarted in place since the group's members
    were last created.
    """
    retired: dict[str, int] = {}
    """By group, the largest number of an attempt of any member that was removed because the job had
    shrunk. Members that the group gets later count their attempts from that number.
    """
    due: list[DueAction] = []
    history: list[Transition] = []
    changed: float = 0.0
    started: float | None = None
    """The time at which the job's minimum number of members first ran."""
    run_started: float | None = None
    """The time at which the gang began its present run; None if it has not begun."""
    ran_s: float = 0.0
    """Seconds of the gang's present run when this record was written (see
    `head.jobs.run_clock`).
    """
    run_count: int = 0
    """The number of earlier runs of the gang."""
    requeues: int = 0
    """How often the requeue rule restarted the job for a reason that counts towards its maximum."""
    revision: int = 0
    """How often the job's queue, priority or time was changed. After each change the job needs a
    new gang.
    """
    is_held: bool = False
    """Whether the job waits until a user releases it."""
    set_back_s: float = 0.0
    """The seconds to subtract from `submitted` wherever a duration is counted from the submission.

    They are 0 unless the clock was set back to a time before the job's submission.
    """
    stepped_s: float = 0.0
    """The seconds by which the clock was stepped since the submission, as far as heads have
    noticed.
    """
    outcomes: list[Outcome] = []
    """The outcome of each of the job's dependencies, in the order of the spec."""
    queued: float | None = None
    """The time since which the job counts as waiting: the time at which its last dependency was
    met.
    """
    released: float | None = None
    """The time at which the job was last released; before that time, the job does not count as
    waiting.
    """
    reserved_until: float | None = None
    """For a job that runs in a reservation: the end of the reservation."""
    step_count: int = 0
    """The number of steps that the job has started so far. The next step gets this number."""
    is_warned: bool = False
    """Whether the members have got the warning signal in the present run."""
    ends_as: str = ""
    """The final state of a job that is being terminated; "" stands for Terminated."""
    crashes: int = 0
    """How often in a row the job was restarted because members crashed soon after their start."""
    rests_until: float | None = None
    """The earliest time of the next start after a crash, in seconds since the epoch."""
    finished: float | None = None
    is_deleted: bool = False
    """Whether the job is deleted as soon as its members have ended."""

    def __post_init__(self) -> None:
        if self.recorded is None:
            self.recorded = self.submitted

    @cached_property
    def uid(self) -> JobId:
        """The job's name in all tables. The text is computed only once, because a head needs it a
        dozen times for each job.
        """
        return self.spec.uid

    @property
    def submitted_in_history(self) -> float:
        """The time of submission that identifies the job in the history. Steps of the clock do not
        change it.
        """
        return self.submitted if self.recorded is None else self.recorded

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
        """Return the number of members in any of `states`: members of `group` or, if it is empty,
        of the whole job.
        """
        tallies = (self.tally.get(group, {}),) if group else self.tally.values()
        found = 0
        for tally in tallies:  # called so often that a generator would cost too much time
            for state in states:
                found += tally.get(state, 0)
        return found

    def set_state(self, member: MemberRecord, state: str) -> None:
        """Move a member to another state, and update the counts."""
        tally = self.tally[member.group]
        tally[member.state] -= 1
        tally[state] = tally.get(state, 0) + 1
        member.state = state

    def count_element(self, old: str, new: str, elements: int = 1) -> None:
        """Update the counts for `elements` array tasks that have moved from the state `old` to
        `new`.
        """
        tally = self.tally[""]
        tally[old] = tally.get(old, 0) - elements
        tally[new] = tally.get(new, 0) + elements

    def replace_group(self, group: str, members: list[MemberRecord]) -> None:
        """Replace the members of a group, and count the states of the new members."""
        self.groups[group] = members
        tally = self.tally[group] = dict[str, int]()
        for member in members:
            tally[member.state] = tally.get(member.state, 0) + 1

    @property
    def ahead_s(self) -> float:
        """The seconds by which the clock was stepped forward since the submission, all steps
        together; 0 if it was stepped backward.
        """
        return max(self.stepped_s, 0.0)

    def clock_stepped(self, step_s: float) -> None:
        """Add `step_s`, the seconds by which the wall clock was set forward (negative: backward),
        to all times from which durations are measured. The durations then stay the same.

        The history is not changed, since it records what the clock showed.
        """
        self.stepped_s += step_s
        self.submitted += step_s
        self.started = moved(self.started, step_s)
        self.run_started = moved(self.run_started, step_s)
        self.queued = moved(self.queued, step_s)
        self.released = moved(self.released, step_s)
        self.finished = moved(self.finished, step_s)
        self.rests_until = moved(self.rests_until, step_s)
        for member in self.members:
            member.rests_until = moved(member.rests_until, step_s)
            member.started = moved(member.started, step_s)
            member.ended = moved(member.ended, step_s)
            member.node_deaths = [at + step_s for at in member.node_deaths]
        replace = msgspec.structs.replace
        self.due = [replace(one, at=one.at + step_s) for one in self.due]
        self.outcomes = [replace(one, since=moved(one.since, step_s)) for one in self.outcomes]
        element = self.spec.element
        if element is not None:
            self.spec = replace(self.spec, element=replace(element, since=element.since + step_s))

    def note(self, now: float, old: str, new: str, reason: str) -> None:
        """Record a transition. The oldest transitions are dropped."""
        note(self.history, now, old, new, reason)


class StepRecord(msgspec.Struct, kw_only=True, eq=False):
    """One step of a flow. `state` is the state of the step's job; "" while the step has no job."""

    state: str = ""
    members: dict[str, dict[str, int]] = {}
    """The numbers of members of the step's job, by group and state, for the probes of other
    steps.
    """
    passed: list[int] = []
    """The indices of the step's own probes that have passed."""


class FlowRecord(msgspec.Struct, kw_only=True, eq=False):
    """One flow, with its steps by name."""

    spec: FlowSpec
    submitted: float
    request: bytes = b""
    """The id of the request that created the record."""
    state: str = PENDING
    reason: str = ""
    steps: dict[str, StepRecord] = {}
    history: list[Transition] = []


class CronRecord(msgspec.Struct, kw_only=True, eq=False):
    """One cron job. `seen` is the last scheduled time for which a job was submitted or skipped."""

    spec: CronSpec
    seen: float
    request: bytes = b""
    """The id of the request that created or last changed the cron job."""
    active: list[str] = []
    """The names of the cron job's unfinished jobs, oldest first."""
    succeeded: list[str] = []
    failed: list[str] = []
    last_scheduled: float | None = None
    last_success: float | None = None
    acted: list[tuple[float, float]] = []
    """Spans of scheduled times for which jobs were submitted or skipped, oldest first.

    The spans prevent a second job for the same time after the clock was set back a little.
    """
    history: list[Transition] = []


def new_job(spec: JobSpec, now: float) -> JobRecord:
    """Return the record of a newly submitted job, with all members waiting."""
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
    """Return a time as the clock shows it after a step of `step_s`; None stays None."""
    return None if moment is None else moment + step_s


def note(history: list[Transition], now: float, old: str, new: str, reason: str) -> None:
    """Record a transition. The oldest transitions are dropped."""
    history.append(Transition(now, old, new, reason))
    del history[:-KEEP_TRANSITIONS]


def _index(member: MemberRecord) -> int:
    return member.index
