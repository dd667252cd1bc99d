"""What the head answers about jobs, and about what manifests make beside them."""

from __future__ import annotations

from typing import ClassVar, Literal

import msgspec

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
    """An object of a manifest: Job, JobTemplate, JobFlow, CronJob, Queue, PriorityClass or
    HyperNode. `spec` is the msgpack of the kind's own struct, which nodes on the way need not
    know."""

    kind: str
    spec: bytes


class ApplyManifests(Request[list[AppliedInfo]]):
    """Make, or change, objects of manifests, in order.

    Raises what the first that cannot be made raises; those before it are made. For a job:
    QueueUnavailableError, GangInfeasibleError, JobCommandError for a name that is taken,
    BatchFileError for a placement and ValueError for a priority class that there is not.
    """

    kind: ClassVar[int] = 80
    effect: ClassVar[Effect] = Effect.ADDS
    asked_by: ClassVar[tuple[Role, ...]] = EVERYBODY

    manifests: list[Manifest]
    id: bytes = b""
    """By which a job, flow or cron job is known that an earlier head took before it could say so:
    nodes ask the next one again. Empty: it counts as another object of that name."""


Command = Literal["suspend", "resume", "cancel", "hold", "release", "requeue"]


class CommandJob(Request[None]):
    """Suspend, resume or cancel a job, have one that waits wait until it is released, one that runs
    end and wait again, or suspend and resume a cron job. Raises JobNotFoundError, and
    JobCommandError for what does not fit its state."""

    kind: ClassVar[int] = 81
    asked_by: ClassVar[tuple[Role, ...]] = EVERYBODY

    name: str
    command: Command


class ResizeJob(Request[JobInfo]):
    """Another size for a job that lives: replicas by group, or by "" for its only one; its row.

    Its minimum stays, unless `min_members` says another or the size falls below it. Raises
    JobNotFoundError, JobCommandError, and GangInfeasibleError for a minimum that the cluster could
    never hold.
    """

    kind: ClassVar[int] = 82
    effect: ClassVar[Effect] = Effect.ADDS
    asked_by: ClassVar[tuple[Role, ...]] = EVERYBODY

    name: str
    replicas: dict[str, int]
    min_members: int | None = None


class UpdateJob(Request[JobInfo]):
    """Another queue, priority, time limit or reservation for a job that waits; None: as it is; its
    row.

    Raises JobNotFoundError, JobCommandError for a job that does not wait and a time above what the
    queue allows, QueueUnavailableError, and GangInfeasibleError for a queue that could never hold
    it.
    """

    kind: ClassVar[int] = 90
    effect: ClassVar[Effect] = Effect.ADDS
    asked_by: ClassVar[tuple[Role, ...]] = EVERYBODY

    name: str
    queue: str | None = None
    priority: int | None = None
    time_limit_s: float | None = None
    reservation: str | None = None
    """"": it names none any more."""


class DeleteJob(Request[None]):
    """End a job, flow or cron job if it lives, and forget it; or forget a network domain. Raises
    JobNotFoundError."""

    kind: ClassVar[int] = 83
    asked_by: ClassVar[tuple[Role, ...]] = EVERYBODY

    name: str


class ListJobs(Request[list[JobInfo]]):
    """Jobs, oldest first; of one queue, in one state, or of one name, where these are given."""

    kind: ClassVar[int] = 84
    effect: ClassVar[Effect] = Effect.READS
    asked_by: ClassVar[tuple[Role, ...]] = EVERYBODY

    queue: str | None = None
    state: str | None = None
    name: str | None = None


class GetJob(Request[JobDescription]):
    """All about one job: its members and its history, too. Raises JobNotFoundError."""

    kind: ClassVar[int] = 85
    effect: ClassVar[Effect] = Effect.READS
    asked_by: ClassVar[tuple[Role, ...]] = EVERYBODY

    name: str


MAX_ROWS = 10_000
"""Of the elements of an array in one answer."""


class ListElements(Request[list[ArrayTaskInfo]]):
    """The elements of an array, `NAME`, or some of them, `NAME[3-5]`, in the order of their
    indices: those that follow one another and are alike in one row, and at most `MAX_ROWS` rows.
    Raises JobNotFoundError for no array, and JobCommandError for what are no indices."""

    kind: ClassVar[int] = 99
    effect: ClassVar[Effect] = Effect.READS
    asked_by: ClassVar[tuple[Role, ...]] = EVERYBODY

    name: str


class ListFlows(Request[list[FlowInfo]]):
    """All flows."""

    kind: ClassVar[int] = 86
    effect: ClassVar[Effect] = Effect.READS
    asked_by: ClassVar[tuple[Role, ...]] = EVERYBODY


class ListCrons(Request[list[CronInfo]]):
    """All cron jobs."""

    kind: ClassVar[int] = 87
    effect: ClassVar[Effect] = Effect.READS
    asked_by: ClassVar[tuple[Role, ...]] = EVERYBODY


class ListHyperNodes(Request[list[HyperNodeInfo]]):
    """All network domains, with the nodes that are in each now."""

    kind: ClassVar[int] = 88
    effect: ClassVar[Effect] = Effect.READS
    asked_by: ClassVar[tuple[Role, ...]] = EVERYBODY


class LogPart(msgspec.Struct, array_like=True):
    """A part of a member's log. `size`: bytes of the whole; -1 when nobody has it any more.
    `skipped`: so many bytes from the offset on are gone, and `data` stood behind them."""

    data: bytes
    size: int
    skipped: int = 0


class ReadJobLog(Request[LogPart]):
    """What stands in a member's log from `offset` on. `attempt` counts the member's starts from 0;
    -1 is the last one. Raises JobNotFoundError for a member that was not started so often."""

    kind: ClassVar[int] = 89
    effect: ClassVar[Effect] = Effect.READS
    asked_by: ClassVar[tuple[Role, ...]] = EVERYBODY

    job: str
    member: str
    attempt: int = -1
    offset: int = 0
