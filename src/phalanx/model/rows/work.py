"""Rows of queues, and of what waits and runs in them. Times are in seconds since the epoch."""

from __future__ import annotations

from phalanx.model.rows.explanation import ExpectedStart
from phalanx.model.rows.row import Row

Amounts = dict[str, float]


class QueueInfo(Row, frozen=True):
    """A queue: its quotas, and the number of its podgroups (gangs and jobs) in each phase."""

    name: str
    state: str
    """The queue's state: Open, Closing or Closed."""
    weight: int
    """The weight by which busy sibling queues share the cluster, unless `deserved` sets the queue's
    part.
    """
    priority: int
    parent: str
    reclaimable: bool
    """Whether other queues may reclaim the resources that this queue has borrowed."""
    members: int
    """The number of members of gangs that hold resources in the queue."""
    capability: Amounts
    """The amounts that the queue never exceeds."""
    deserved: Amounts
    guarantee: Amounts
    """The amounts that are always kept for the queue."""
    allocated: Amounts
    """The amounts that gangs and jobs hold in the queue and in the queues below it."""
    requested: Amounts
    """The additional amounts for which these gangs and jobs wait."""
    default_time_s: float | None
    """The time limit in seconds of jobs submitted without one; None: no limit."""
    max_time_s: float | None
    """The longest time limit of a job in seconds, by this queue and the queues above it."""
    pending: int
    inqueue: int
    running: int
    unknown: int
    completed: int
    submit: str = ""
    """The people who may submit to the queue, by its own list; empty: it has no list."""
    admin: str = ""
    """The people who administer the queue and the queues below it."""


class RulesInfo(Row, frozen=True):
    """The configuration that the scheduler follows."""

    text: str
    """Volcano's scheduler configuration."""
    file: str
    """The file from which an administrator set the configuration."""
    is_own: bool
    """Whether an administrator set the configuration; if not, it is the cluster's default."""
    actions: list[str]
    plugins: list[str]
    """The names of all plugins that are on, including those that every cluster has."""
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
    """How often members of the gang were evicted."""
    ports: list[int]
    """The ports that are free on every node of the gang."""
    nodes: list[str]
    """The node of each member; empty if it has none."""
    devices: list[dict[str, list[int]]]
    """The numbers of each member's devices, by resource; empty for a member that is not placed."""
    job: str
    """The job whose gang this is, as NAMESPACE/NAME; empty for a gang of a program."""


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
    """The position in the queue, 1 for the first that waits; None for a job that does not wait."""
    submitted: float
    recorded_as: float
    """The time of submission under which the history records the job. Unlike `submitted`, this time
    does not change when the clock is stepped.
    """
    started: float | None
    finished: float | None
    age_s: float
    """Seconds since the job was submitted."""
    time_limit_s: float | None
    """Seconds that the gang may run after each start; None: without limit."""
    ran_s: float
    """Seconds of the gang's present run; for an ended job, of its last run."""
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
    """Notes from its manifest, or from its submitter."""
    after: str
    """The dependencies: other jobs that must begin or end before this job requests resources."""
    array: str
    """For an array: the indices of its array tasks. The numbers of members then count array
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
    """The time from which the job counts as waiting: the latest of its submission, its earliest
    start, its release, and the time at which its dependencies were met. None while the job is held
    or has unmet dependencies.
    """
    gpus: float
    """The number of GPUs that all members together request; for an array, the number for one array
    task.
    """


class ArrayTaskInfo(Row, frozen=True):
    """Neighbouring array tasks of one array that are in the same state."""

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
    """The file with the output of one start of a member."""

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
    """The signal that ended the member; 0: none, or unknown."""


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
    """How often members of the gang were evicted."""
    members: list[MemberInfo]
    history: list[TransitionInfo]


class FlowInfo(Row, frozen=True):
    """A flow: jobs that follow one another."""

    name: str
    namespace: str
    state: str
    reason: str
    submitted: float
    steps: dict[str, str]
    """The state of each step's job, by step; empty before the job is created."""


class CronInfo(Row, frozen=True):
    """A cron job, which makes jobs by the clock."""

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
    """The object's namespace; empty for an object without one."""
    done: str
    """The change of the object: created or updated."""
