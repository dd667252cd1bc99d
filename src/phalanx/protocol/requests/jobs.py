"""Requests to the head about jobs, and about the other objects in manifests."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import msgspec

from phalanx.model.member_use import MemberUse
from phalanx.model.rights import Verb
from phalanx.model.rows.cluster import HyperNodeInfo
from phalanx.model.rows.work import (
    AppliedInfo,
    ArrayTaskInfo,
    CronInfo,
    FlowInfo,
    JobDescription,
    JobInfo,
)
from phalanx.protocol.requests.request import EVERYBODY, Effect, Request, Role


class Manifest(msgspec.Struct, array_like=True):
    """An object of a manifest. `kind` is Job, JobTemplate, JobFlow, CronJob, Queue, PriorityClass
    or HyperNode.

    `spec` is the msgpack of the struct for this kind, which nodes pass on without decoding it.
    """

    kind: str
    spec: bytes


class ApplyManifests(Request[list[AppliedInfo]]):
    """Create or change the objects of manifests, in the given order. If an object fails, its error
    is raised; the objects before it stay created. A job raises QueueUnavailableError,
    GangInfeasibleError, JobCommandError for a name that is taken, BatchFileError for an invalid
    placement, and ValueError for an unknown priority class.
    """

    kind: ClassVar[int] = 80
    verb: ClassVar[Verb] = Verb.SUBMIT
    effect: ClassVar[Effect] = Effect.ADDS
    asked_by: ClassVar[tuple[Role, ...]] = EVERYBODY

    manifests: list[Manifest]
    id: bytes = b""
    """The id of this request. Without an id, a repeated request creates its objects again, under
    names that may be taken.

    Nodes repeat a request that a head did not answer. By the id, the next head recognizes a job,
    flow or cron job that the earlier head created before it could answer.
    """


Command = Literal["suspend", "resume", "cancel", "hold", "release", "requeue"]


class CommandJob(Request[None]):
    """Suspend, resume, cancel, hold, release or requeue a job, or suspend or resume a cron job.

    A held job waits until it is released; a requeued job ends and waits again. Raises
    JobNotFoundError, and JobCommandError for a command that does not fit the job's state.
    """

    kind: ClassVar[int] = 81
    verb: ClassVar[Verb] = Verb.CHANGE
    asked_by: ClassVar[tuple[Role, ...]] = EVERYBODY

    name: str
    command: Command


class ResizeJob(Request[JobInfo]):
    """Change the number of members of a job that has not ended. Returns the job's row. `replicas`:
    the new number of members by group; the name "" stands for the job's only group. The job's
    minimum stays, unless `min_members` sets another one or the minimum is above the new size. At
    least one member must remain.
    Raises JobNotFoundError, JobCommandError, and GangInfeasibleError for a minimum that the cluster
    could never hold.
    """

    kind: ClassVar[int] = 82
    verb: ClassVar[Verb] = Verb.CHANGE
    effect: ClassVar[Effect] = Effect.ADDS
    asked_by: ClassVar[tuple[Role, ...]] = EVERYBODY

    name: str
    replicas: dict[str, int]
    min_members: int | None = None


class UpdateJob(Request[JobInfo]):
    """Change the queue, priority, time limit, reservation or notes of a waiting job.

    None leaves a value unchanged. Returns the job's row. Raises JobNotFoundError, JobCommandError
    for a job that does not wait or for a time limit above the queue's, QueueUnavailableError, and
    GangInfeasibleError for a queue that could never hold the job.
    """

    kind: ClassVar[int] = 90
    verb: ClassVar[Verb] = Verb.CHANGE
    effect: ClassVar[Effect] = Effect.ADDS
    asked_by: ClassVar[tuple[Role, ...]] = EVERYBODY

    name: str
    queue: str | None = None
    priority: int | None = None
    time_limit_s: float | None = None
    reservation: str | None = None
    """The name of the new reservation; "" if the job should use no reservation any more."""
    annotations: dict[str, str] | None = None
    """Notes to set; the job keeps its other notes."""


class DeleteJob(Request[None]):
    """Delete a job, flow, cron job or network domain. A job, flow or cron job that has not ended is
    ended first.

    Raises JobNotFoundError.
    """

    kind: ClassVar[int] = 83
    verb: ClassVar[Verb] = Verb.CHANGE
    asked_by: ClassVar[tuple[Role, ...]] = EVERYBODY

    name: str


class ListJobs(Request[list[JobInfo]]):
    """List jobs, the oldest first; `queue`, `state` and `name` select jobs if they are given.

    `ended_within_s`: a job that has ended is listed only if it ended within this number of seconds;
    None for all jobs that the head has.
    """

    kind: ClassVar[int] = 84
    verb: ClassVar[Verb] = Verb.SEE
    effect: ClassVar[Effect] = Effect.READS
    asked_by: ClassVar[tuple[Role, ...]] = EVERYBODY

    queue: str | None = None
    state: str | None = None
    name: str | None = None
    ended_within_s: float | None = None


class JobColumns(msgspec.Struct, array_like=True):
    """Fields of many jobs, the oldest job first.

    `columns`: for each requested field, and then for each requested annotation, the values of all
    jobs. `arrays`: the whole rows of those jobs that are arrays, in the same order.
    """

    columns: list[list[Any]]
    arrays: list[JobInfo]


HOSTS = "hosts"
"""The name of a field that JobInfo lacks. Its value: for each node where members of the job are or
were, the node's name in lists of hosts (`listed_name`).
"""
CODE = "code"
"""The name of a field that JobInfo lacks. Its value: the code of the reason why the job waits, as
in WaitInfo; "" for a job that does not wait for places.
"""


class ListJobColumns(Request[JobColumns]):
    """List some fields of jobs, for listings of thousands of jobs.

    `fields` are fields of JobInfo, HOSTS and CODE. The value of an annotation that a job lacks is
    None. Only jobs in one of these `states` and with one of these `names` are listed; if one of the
    two is empty, it excludes no job. Raises ValueError for an unknown field.
    """

    kind: ClassVar[int] = 119
    verb: ClassVar[Verb] = Verb.SEE
    effect: ClassVar[Effect] = Effect.READS
    asked_by: ClassVar[tuple[Role, ...]] = EVERYBODY

    fields: list[str]
    annotations: tuple[str, ...] = ()
    states: tuple[str, ...] = ()
    names: tuple[str, ...] = ()


class GetJob(Request[JobDescription]):
    """Return all facts about one job, with its members and its history. Raises JobNotFoundError."""

    kind: ClassVar[int] = 85
    verb: ClassVar[Verb] = Verb.READ
    effect: ClassVar[Effect] = Effect.READS
    asked_by: ClassVar[tuple[Role, ...]] = EVERYBODY

    name: str


MAX_ROWS = 10_000
"""The largest number of rows of array tasks in one answer."""


class ListElements(Request[list[ArrayTaskInfo]]):
    """List the array tasks of an array, `NAME`, or of a part of it, `NAME[3-5]`, by index.
    Neighbouring array tasks with equal values share a row; there are at most `MAX_ROWS` rows.
    Raises JobNotFoundError if there is no such array, and JobCommandError for invalid indices.
    """

    kind: ClassVar[int] = 99
    verb: ClassVar[Verb] = Verb.SEE
    effect: ClassVar[Effect] = Effect.READS
    asked_by: ClassVar[tuple[Role, ...]] = EVERYBODY

    name: str


class ListFlows(Request[list[FlowInfo]]):
    """List all flows."""

    kind: ClassVar[int] = 86
    verb: ClassVar[Verb] = Verb.SEE
    effect: ClassVar[Effect] = Effect.READS
    asked_by: ClassVar[tuple[Role, ...]] = EVERYBODY


class ListCrons(Request[list[CronInfo]]):
    """List all cron jobs."""

    kind: ClassVar[int] = 87
    verb: ClassVar[Verb] = Verb.SEE
    effect: ClassVar[Effect] = Effect.READS
    asked_by: ClassVar[tuple[Role, ...]] = EVERYBODY


class ListHyperNodes(Request[list[HyperNodeInfo]]):
    """List all network domains, with the nodes that are in each now."""

    kind: ClassVar[int] = 88
    verb: ClassVar[Verb] = Verb.SEE
    effect: ClassVar[Effect] = Effect.READS
    asked_by: ClassVar[tuple[Role, ...]] = EVERYBODY


class LogPart(msgspec.Struct, array_like=True):
    """A part of a member's log.

    `size`: the bytes of the whole log; -1 if the log no longer exists. `skipped`: the number of
    bytes after the offset that no longer exist; `data` begins after them.
    """

    data: bytes
    size: int
    skipped: int = 0


class GetMemberUse(Request[MemberUse]):
    """Return the usage of a running member of a job over time. Raises JobNotFoundError."""

    kind: ClassVar[int] = 96
    verb: ClassVar[Verb] = Verb.READ
    effect: ClassVar[Effect] = Effect.READS
    asked_by: ClassVar[tuple[Role, ...]] = EVERYBODY

    job: str
    member: str


class ReadJobLog(Request[LogPart]):
    """Read a member's log from `offset` on.

    `attempt`: the number of the member's attempt, from 0 on; -1 for the last attempt. Raises
    JobNotFoundError for an attempt that the member does not have.
    """

    kind: ClassVar[int] = 89
    verb: ClassVar[Verb] = Verb.READ
    effect: ClassVar[Effect] = Effect.READS
    asked_by: ClassVar[tuple[Role, ...]] = EVERYBODY

    job: str
    member: str
    attempt: int = -1
    offset: int = 0
    limit: int | None = None
    """The largest number of bytes to read; None for the number that fits into one answer."""
    is_followed: bool = False
    """Whether the reader has read everything before the offset, and wants all output that follows.
    The members of a job with `JobSpec.is_followed` wait for this reader.
    """
    is_preparing: bool = False
    """Whether to read the log of the preparation of the member's environment instead."""
