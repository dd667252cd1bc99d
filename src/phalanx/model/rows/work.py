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
    """What it deserves among busy queues beside it, unless `deserved` says so."""
    priority: int
    parent: str
    reclaimable: bool
    """Whether others may take back what it borrowed."""
    members: int
    """How many members of gangs hold something in it."""
    capability: Amounts
    """What it may use at most."""
    deserved: Amounts
    guarantee: Amounts
    """What is kept free for it."""
    allocated: Amounts
    """What its gangs and jobs hold, those of the queues below it included."""
    requested: Amounts
    """What they wait for, beside that."""
    default_time_s: float | None
    """How long a job may run that says nothing of it."""
    max_time_s: float | None
    """How long a job may run at most, by this queue and those above it."""
    pending: int
    inqueue: int
    running: int
    unknown: int
    completed: int


class RulesInfo(Row, frozen=True):
    """What the scheduler goes by."""

    text: str
    """Volcano's scheduler configuration."""
    file: str
    """Where an administrator had them from."""
    is_own: bool
    """They are an administrator's, and not those that come with the cluster."""
    actions: list[str]
    plugins: list[str]
    """All that are on, those included that every cluster has."""
    trouble: str = ""
    """Why the cluster goes by those that come with it although there are own ones."""


class GangInfo(Row, frozen=True):
    """A gang that has not ended."""

    name: str
    group: str
    """Its id in hex."""
    queue: str
    priority: int
    phase: str
    """Of its podgroup, as in QueueInfo."""
    members: list[str]
    """The state of each member, by rank."""
    min_members: int
    created: float
    started: float | None
    preempted: int
    """How often members of it were evicted."""
    ports: list[int]
    """Free on each of its nodes."""
    nodes: list[str]
    """The node of each member; empty where it has none."""
    devices: list[dict[str, list[int]]]
    """The numbers of each member's devices, by resource; empty where it has no place."""
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
    """Members in all."""
    min: int
    """Members that must run together."""
    pending: int
    running: int
    succeeded: int
    failed: int
    retries: int
    priority: int
    position: int | None
    """1 for the first that waits in its queue; None for one that does not wait."""
    submitted: float
    started: float | None
    finished: float | None
    age_s: float
    """Since it was submitted."""
    time_limit_s: float | None
    """How long its gang may run, each time that it starts."""
    ran_s: float
    """How long its gang has run this time; of one that is over, the last time."""
    ends: float | None
    """While it runs: when its time is over, by its limit or its deadline."""
    begins: float | None
    """It does not start before."""
    deadline: float | None
    """It has ended by then."""
    is_held: bool
    restarts: int
    """How often its gang ran before, whatever ended it."""
    annotations: dict[str, str]
    """What its manifest, or who submitted it, has noted of it."""
    after: str
    """What has to become of other jobs before it waits for places."""
    array: str
    """The indices of its elements, where it is an array: the numbers of members then count
    elements."""
    expected_start: ExpectedStart | None
    """Of one that waits, where run times tell."""
    user: str
    """Who submitted it, by their own account."""
    reservation: str
    """The one that it runs in, or waits for."""
    licenses: dict[str, int]
    """So many of the cluster's licences it holds while it runs."""


class ArrayTaskInfo(Row, frozen=True):
    """Elements of an array that follow one another and are alike."""

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
    """Where a member's output of one start is."""

    node: str
    path: str


class MemberInfo(Row, frozen=True):
    """A member of a job, as it was started last."""

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
    """By which it was ended; 0: by none, or nobody knows."""


class TransitionInfo(Row, frozen=True):
    """A change of a job's state."""

    at: float
    old: str
    new: str
    reason: str


class JobDescription(JobInfo, frozen=True):
    """All about one job."""

    ports: list[int]
    """Free on each node of its gang."""
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
    """Its jobs that run."""
    last_scheduled: float | None
    last_success: float | None


class AppliedInfo(Row, frozen=True):
    """An object of a manifest that was made or changed."""

    kind: str
    name: str
    namespace: str
    """Empty for what has none."""
    done: str
    """created or updated."""
