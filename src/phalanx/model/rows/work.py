"""Rows of queues, and of what waits and runs in them. Times are in seconds since the epoch."""

from __future__ import annotations

import msgspec

from phalanx.model.rows.explanation import ExpectedStart
from phalanx.model.rows.row import Row

Amounts = dict[str, float]
SHOWN_COMMAND = 300
"""The number of characters of a command that pages about a job show."""


class QueueInfo(Row, frozen=True):
    """A queue: its quotas, and the number of its podgroups (gangs and jobs) in each phase."""

    name: str
    state: str
    """The queue's state: Open, Closing or Closed."""
    weight: int
    """The weight by which busy sibling queues divide the cluster, unless `deserved` sets the
    queue's part.
    """
    priority: int
    parent: str
    reclaimable: bool
    """Whether other queues may take back the resources that this queue has borrowed from them."""
    members: int
    """The number of members of gangs that hold resources in the queue."""
    capability: Amounts
    """The amounts above which the queue never goes."""
    deserved: Amounts
    guarantee: Amounts
    """The amounts that are always kept for the queue."""
    allocated: Amounts
    """The amounts that gangs and jobs hold in the queue and in the queues below it."""
    requested: Amounts
    """The amounts for which gangs and jobs wait in the queue and in the queues below it."""
    default_time_s: float | None
    """The time limit in seconds of jobs submitted without a limit of their own; None for no
    limit.
    """
    max_time_s: float | None
    """The longest time limit of a job in seconds, with the limits of the queues above taken into
    account.
    """
    pending: int
    inqueue: int
    running: int
    unknown: int
    completed: int
    submit: str = ""
    """The people who may submit to the queue, by its own list; "" if it has no list."""
    admin: str = ""
    """The people who administer the queue and the queues below it."""


class RulesInfo(Row, frozen=True):
    """The configuration that the scheduler follows."""

    text: str
    """Volcano's scheduler configuration."""
    file: str
    """The file from which an administrator set the configuration."""
    is_own: bool
    """Whether an administrator set the configuration; otherwise it is the cluster's default."""
    actions: list[str]
    plugins: list[str]
    """The names of all plugins in use, including those that every cluster has."""
    trouble: str = ""
    """Why the cluster follows the built-in configuration although an administrator set another."""


class GangInfo(Row, frozen=True):
    """A gang that has not ended."""

    name: str
    group: str
    """The gang's id in hex."""
    queue: str
    priority: int
    phase: str
    """The phase of the gang's podgroup, as in QueueInfo."""
    members: list[str]
    """The state of each member, by rank."""
    min_members: int
    created: float
    started: float | None
    preempted: int
    """How often members of the gang were preempted."""
    ports: list[int]
    """The ports that the gang may use: they are free on each of its nodes."""
    nodes: list[str]
    """The node of each member; "" for a member without a node."""
    devices: list[dict[str, list[int]]]
    """The numbers of each member's devices, by resource; empty for a member that is not placed."""
    job: str
    """The job whose gang this is, as NAMESPACE/NAME; "" for a gang of a program."""


class JobInfo(Row, frozen=True):
    """A job."""

    name: str
    namespace: str
    queue: str
    state: str
    reason: str
    """Why the job is in its state, or why it waits."""
    kind: str
    """The kind of the job: mpi, pytorch, tensorflow, ray or batch."""
    replicas: int
    """The number of members."""
    min: int
    """The number of members that must run together."""
    pending: int
    running: int
    succeeded: int
    failed: int
    retries: int
    priority: int
    position: int | None
    """The position of a waiting job in the queue, counted from 1; else None."""
    submitted: float
    recorded_as: float
    """The time of submission that identifies the job in the history. Unlike `submitted`, it does
    not change when the clock is stepped.
    """
    started: float | None
    finished: float | None
    age_s: float
    """Seconds since the job was submitted."""
    time_limit_s: float | None
    """Seconds that the gang may run after each start; None for no limit."""
    ran_s: float
    """The seconds that the gang's present run has lasted. For a job that has ended, they are those
    of its last run.
    """
    ends: float | None
    """For a running job: the time at which it reaches its limit or its deadline."""
    begins: float | None
    """The earliest time at which the job starts."""
    deadline: float | None
    """The time at which the job is ended if it still waits or runs."""
    is_held: bool
    restarts: int
    """The number of earlier runs of the gang, for whatever reason they ended."""
    annotations: dict[str, str]
    """The notes from the job's manifest, or from its submitter."""
    after: str
    """The job's dependencies: other jobs that must begin or end before it requests resources."""
    array: str
    """For an array: the indices of its array tasks. All numbers of members then count array
    tasks.
    """
    expected_start: ExpectedStart | None
    """For a waiting job: its expected start, if the run times of other work are known."""
    user: str
    """The user who owns the job."""
    reservation: str
    """The reservation in which the job runs, or for which it waits."""
    licenses: dict[str, int]
    """The number of licenses of each kind that the job holds while it runs."""
    queued: float | None
    """The time since which the job counts as waiting: the latest of its submission, its earliest
    start, its release, and the time at which its dependencies were met. None while the job is held
    or has unmet dependencies.
    """
    gpus: float
    """The number of GPUs that all members together request; for an array, the number for one array
    task.
    """


class ArrayTaskInfo(Row, frozen=True):
    """Array tasks that follow each other in their array and are in the same state."""

    name: str
    """The name of these array tasks, such as NAME[3-5]."""
    elements: int
    state: str
    exit_code: int | None
    starts: int
    """How often each of these array tasks was started."""
    node: str
    reason: str


class LogFile(Row, frozen=True):
    """A file with the output of one start of a member."""

    node: str
    path: str


class MemberInfo(Row, frozen=True):
    """A member of a job, as it was last started."""

    name: str
    state: str
    attempt: int
    """The number of times that the member was started."""
    node: str
    devices: dict[str, list[int]]
    """The numbers of the member's devices, by resource."""
    exit_code: int | None
    reason: str
    started: float | None
    ended: float | None
    logs: list[LogFile]
    """The files with the output of the member's starts; only files that are still kept are
    listed.
    """
    signal: int = 0
    """The signal that ended the member; 0 if no signal did, or if unknown."""


class RoleInfo(Row, frozen=True):
    """Members of a job that run the same command."""

    name: str
    replicas: int
    command: str
    """The words of the command, quoted for a shell. For a job of Slurm's commands: the command that
    its user gave.
    """
    needs: Amounts
    """The amounts that one member holds."""

    @property
    def short_command(self) -> str:
        """The command, without the end of a very long one."""
        if len(self.command) <= SHOWN_COMMAND:
            return self.command
        return f"{self.command[:SHOWN_COMMAND]}… ({len(self.command):,} characters in all)"


class TransitionInfo(Row, frozen=True):
    """A change of a job's state."""

    at: float
    old: str
    new: str
    reason: str


class JobDescription(JobInfo, frozen=True):
    """All facts about one job."""

    ports: list[int]
    """The ports that are free on every node of the job's gang."""
    preempted: int
    """How often members of the gang were preempted."""
    members: list[MemberInfo]
    history: list[TransitionInfo]
    roles: list[RoleInfo] = msgspec.field(default_factory=list)
    """The command and the amounts of the members of each role."""


class FlowInfo(Row, frozen=True):
    """A flow: jobs that follow one another."""

    name: str
    namespace: str
    state: str
    reason: str
    submitted: float
    steps: dict[str, str]
    """The state of each step's job, by step; "" if the job does not exist yet."""


class CronInfo(Row, frozen=True):
    """A cron job, which submits jobs at times of a schedule."""

    name: str
    namespace: str
    schedule: str
    state: str
    """The cron job's state: Active or Suspended."""
    active: list[str]
    """The names of the cron job's running jobs."""
    last_scheduled: float | None
    last_success: float | None


class AppliedInfo(Row, frozen=True):
    """An object of a manifest that was created or changed."""

    kind: str
    name: str
    namespace: str
    """The object's namespace; "" for a kind of object without one."""
    done: str
    """The kind of change: created or updated."""
