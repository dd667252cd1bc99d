"""Rows of queues, and of what waits and runs in them. Times are in seconds since the epoch."""

from __future__ import annotations

from phalanx.model.rows.explanation import ExpectedStart
from phalanx.model.rows.row import Row

Amounts = dict[str, float]


class QueueInfo(Row, frozen=True):
    """A queue: its quotas, and how many podgroups (gangs and jobs) of it are in each phase."""

    name: str
    state: str
    """Open, Closing or Closed."""
    weight: int
    """Its part among busy sibling queues, unless `deserved` sets it."""
    priority: int
    parent: str
    reclaimable: bool
    """Whether others may take back what it borrowed."""
    members: int
    """The number of members of gangs that hold something in it."""
    capability: Amounts
    """The most that it may use."""
    deserved: Amounts
    guarantee: Amounts
    """The amounts kept free for it."""
    allocated: Amounts
    """The amounts that its gangs and jobs hold, those of the queues below it included."""
    requested: Amounts
    """The amounts that they wait for, in addition."""
    default_time_s: float | None
    """The time limit in seconds of jobs that declare none."""
    max_time_s: float | None
    """The longest time limit of a job in seconds, by this queue and those above it."""
    pending: int
    inqueue: int
    running: int
    unknown: int
    completed: int
    submit: str = ""
    """The people who may submit to it, as its own list says; empty: it has no list."""
    admin: str = ""
    """The people who administer it and the queues below it."""


class RulesInfo(Row, frozen=True):
    """The rules that the scheduler follows."""

    text: str
    """Volcano's scheduler configuration."""
    file: str
    """The file from which an administrator set them."""
    is_own: bool
    """Whether an administrator set them, instead of those that come with the cluster."""
    actions: list[str]
    plugins: list[str]
    """All that are on, with those that every cluster has."""
    trouble: str = ""
    """Why the cluster follows the built-in rules although an administrator set some."""


class GangInfo(Row, frozen=True):
    """A gang that has not ended."""

    name: str
    group: str
    """Its id in hex."""
    queue: str
    priority: int
    phase: str
    """The phase of its podgroup, as in QueueInfo."""
    members: list[str]
    """The state of each member, by rank."""
    min_members: int
    created: float
    started: float | None
    preempted: int
    """How often members of it were evicted."""
    ports: list[int]
    """The ports that are free on each of its nodes."""
    nodes: list[str]
    """The node of each member; empty if it has none."""
    devices: list[dict[str, list[int]]]
    """The numbers of each member's devices, by resource; empty if it has no place."""
    job: str
    """The job whose members these are, NAMESPACE/NAME; empty for a gang of a program."""


class JobInfo(Row, frozen=True):
    """A job."""

    name: str
    namespace: str
    queue: str
    state: str
    reason: str
    """Why it is in that state, or why it waits."""
    kind: str
    """mpi, pytorch, tensorflow, ray, or batch."""
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
    """1 for the first that waits in its queue; None for one that does not wait."""
    submitted: float
    recorded_as: float
    """`submitted` in records of the history: a step of the clock moves only the former."""
    started: float | None
    finished: float | None
    age_s: float
    """Seconds since it was submitted."""
    time_limit_s: float | None
    """Seconds that its gang may run, each time that it starts."""
    ran_s: float
    """Seconds that its gang has run this time; for an ended job, the last time."""
    ends: float | None
    """While it runs: when its time is over, by its limit or its deadline."""
    begins: float | None
    """The moment before which it does not start."""
    deadline: float | None
    """The moment by which it has ended."""
    is_held: bool
    restarts: int
    """How often its gang ran before, whatever ended it."""
    annotations: dict[str, str]
    """Notes from its manifest, or from its submitter."""
    after: str
    """Dependencies: other jobs that must begin or end before it waits for places."""
    array: str
    """The indices of its array tasks, if it is an array: the numbers of members then count them."""
    expected_start: ExpectedStart | None
    """For a waiting job, where run times tell."""
    user: str
    """The user who submitted it, by the user's own account."""
    reservation: str
    """The reservation that it runs in, or waits for."""
    licenses: dict[str, int]
    """How many of each of the cluster's licenses it holds while it runs."""
    queued: float | None
    """Since when it has waited for places: its submission, its begin, its release, or the moment
    when its dependencies were met. None while it is held or has dependencies that are not met."""
    gpus: float
    """The GPUs that its members ask for together; for an array, those of one array task."""


class ArrayTaskInfo(Row, frozen=True):
    """Array tasks of an array that follow one another and are alike."""

    name: str
    """As NAME[3-5]."""
    elements: int
    state: str
    exit_code: int | None
    starts: int
    """How often each was started."""
    node: str
    reason: str


class LogFile(Row, frozen=True):
    """The file with a member's output of one start."""

    node: str
    path: str


class MemberInfo(Row, frozen=True):
    """A member of a job, as it was last started."""

    name: str
    state: str
    attempt: int
    """How often it was started."""
    node: str
    devices: dict[str, list[int]]
    """The numbers of its devices, by resource."""
    exit_code: int | None
    reason: str
    started: float | None
    ended: float | None
    logs: list[LogFile]
    """A file for each start, as far as they are kept."""
    signal: int = 0
    """The signal that ended it; 0: none, or unknown."""


class TransitionInfo(Row, frozen=True):
    """A change of a job's state."""

    at: float
    old: str
    new: str
    reason: str


class JobDescription(JobInfo, frozen=True):
    """All facts about one job."""

    ports: list[int]
    """The ports that are free on each node of its gang."""
    preempted: int
    """How often members of it were evicted."""
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
    """The state of each step's job; empty before it is made."""


class CronInfo(Row, frozen=True):
    """A cron job, which makes jobs by the clock."""

    name: str
    namespace: str
    schedule: str
    state: str
    """Active or Suspended."""
    active: list[str]
    """Its running jobs."""
    last_scheduled: float | None
    last_success: float | None


class AppliedInfo(Row, frozen=True):
    """An object of a manifest that was made or changed."""

    kind: str
    name: str
    namespace: str
    """Empty for an object without a namespace."""
    done: str
    """created or updated."""
