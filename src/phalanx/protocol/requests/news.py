"""Requests to the head of clients that follow a cluster: only what has changed."""

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
"""The most rows of each kind in one answer."""


class Since(msgspec.Struct, array_like=True, frozen=True):
    """The state of the follower's knowledge.

    `head` stands for the head that answered; another head starts again.
    """

    head: float = 0.0
    nodes: int = 0
    jobs: int = 0
    gangs: int = 0


class ClusterNews(msgspec.Struct, array_like=True):
    """The nodes, jobs and gangs that have changed or are gone, and all queues.

    Rows of jobs lack what changes without an event: why they wait, their position and their
    expected start (see `ListWaiting`). `is_new`: everything heard before is void.
    """

    since: Since
    is_new: bool
    is_more: bool
    """Whether there is more than `MAX_ROWS` of some kind: ask again."""
    nodes: list[NodeInfo]
    jobs: list[JobInfo]
    gangs: list[GangInfo]
    gone_nodes: list[str]
    """Their node ids."""
    gone_jobs: list[str]
    """NAMESPACE/NAME each."""
    gone_gangs: list[str]
    """Their groups in hex."""
    queues: list[QueueInfo]


class GetNews(Request[ClusterNews]):
    """Return what has changed since then."""

    kind: ClassVar[int] = 126
    verb: ClassVar[Verb] = Verb.SEE
    effect: ClassVar[Effect] = Effect.READS
    asked_by: ClassVar[tuple[Role, ...]] = EVERYBODY

    since: Since


class WaitInfo(msgspec.Struct, array_like=True, frozen=True):
    """Why a job waits, briefly, its position in its queue, and when it should start."""

    job: str
    """NAMESPACE/NAME."""
    reason: str
    position: int
    expected_start: ExpectedStart | None
    code: str = ""
    """The code of the first reason (`batch.explain.REASONS`, `behind`, `set-aside`)."""
    plugin: str = ""
    """The scheduler's plugin that gives the reason; empty if it is the scheduler itself."""


def with_wait(row: JobInfo, wait: WaitInfo | None) -> JobInfo:
    """Return a job's row with how it waits, or without that."""
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
