"""Requests for the changes in a cluster, for clients that follow the cluster."""

from __future__ import annotations

from typing import ClassVar

import msgspec

from phalanx.model.rights import Verb
from phalanx.model.rows.cluster import NodeInfo
from phalanx.model.rows.explanation import ExpectedStart
from phalanx.model.rows.work import GangInfo, JobInfo, QueueInfo
from phalanx.protocol.requests.request import EVERYBODY, Effect, Request, Role

_changed = msgspec.structs.replace
MAX_ROWS = 1_000
"""The largest number of rows of each kind in one answer."""


class Since(msgspec.Struct, array_like=True, frozen=True):
    """Says which news of nodes, jobs and gangs the asker already has.

    `head` identifies the head that sent these news; another head sends all rows again.
    """

    head: float = 0.0
    nodes: int = 0
    jobs: int = 0
    gangs: int = 0


class ClusterNews(msgspec.Struct, array_like=True):
    """The nodes, jobs and gangs that have changed or no longer exist, and all queues.

    Rows of jobs lack the values that change without an event: the reason for waiting, the position
    in the queue and the expected start (see `ListWaiting`). With `is_new`, the asker must forget
    all its earlier rows.
    """

    since: Since
    is_new: bool
    is_more: bool
    """Whether there are more than `MAX_ROWS` rows of some kind, so that the asker must ask
    again.
    """
    nodes: list[NodeInfo]
    jobs: list[JobInfo]
    gangs: list[GangInfo]
    gone_nodes: list[str]
    """The ids of the nodes that no longer exist."""
    gone_jobs: list[str]
    """The jobs that no longer exist, each as NAMESPACE/NAME."""
    gone_gangs: list[str]
    """The ids of the gangs that no longer exist, in hex."""
    queues: list[QueueInfo]


class GetNews(Request[ClusterNews]):
    """Return the changes since the asker's last request."""

    kind: ClassVar[int] = 126
    verb: ClassVar[Verb] = Verb.SEE
    effect: ClassVar[Effect] = Effect.READS
    asked_by: ClassVar[tuple[Role, ...]] = EVERYBODY

    since: Since


class WaitInfo(msgspec.Struct, array_like=True, frozen=True):
    """Why a job waits, in brief, with the job's position in its queue and its expected start."""

    job: str
    """The job, as NAMESPACE/NAME."""
    reason: str
    position: int
    expected_start: ExpectedStart | None
    code: str = ""
    """The code of the first reason: one of `batch.explain.REASONS`, or `behind` or `set-aside`."""
    plugin: str = ""
    """The scheduler's plugin that gives the reason; "" if the reason comes from the scheduler
    itself.
    """


def with_wait(row: JobInfo, wait: WaitInfo | None) -> JobInfo:
    """Return a job's row with the fields of `wait` filled in, or emptied if `wait` is None."""
    if wait is None:
        return row if row.position is None else _changed(row, position=None, expected_start=None)
    return _changed(
        row,
        reason=wait.reason or row.reason,
        position=wait.position,
        expected_start=wait.expected_start,
    )


class ListWaiting(Request[list[WaitInfo]]):
    """List all jobs that wait for places."""

    kind: ClassVar[int] = 127
    verb: ClassVar[Verb] = Verb.SEE
    effect: ClassVar[Effect] = Effect.READS
    asked_by: ClassVar[tuple[Role, ...]] = EVERYBODY
