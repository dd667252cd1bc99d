"""What the head answers who follows a cluster: what has changed, and nothing else."""

from __future__ import annotations

from typing import ClassVar

import msgspec

from phalanx.model.rows.cluster import NodeInfo
from phalanx.model.rows.explanation import ExpectedStart
from phalanx.model.rows.work import GangInfo, JobInfo, QueueInfo
from phalanx.protocol.requests.request import EVERYBODY, Effect, Request, Role

_changed = msgspec.structs.replace
MAX_ROWS = 1_000
"""Of each kind in one answer."""


class Since(msgspec.Struct, array_like=True, frozen=True):
    """How far who follows has heard. `head` stands for the head that said so: another one begins
    anew."""

    head: float = 0.0
    nodes: int = 0
    jobs: int = 0
    gangs: int = 0


class ClusterNews(msgspec.Struct, array_like=True):
    """What has changed of nodes, jobs and gangs, and what of them is gone; all queues.

    Jobs are told without what changes by itself: why they wait, their position and expected start
    (`ListWaiting`). `is_new`: what was heard before is void.
    """

    since: Since
    is_new: bool
    is_more: bool
    """There is more than `MAX_ROWS` of some kind: ask again."""
    nodes: list[NodeInfo]
    jobs: list[JobInfo]
    gangs: list[GangInfo]
    gone_nodes: list[str]
    """Their ids."""
    gone_jobs: list[str]
    """NAMESPACE/NAME each."""
    gone_gangs: list[str]
    """Their groups in hex."""
    queues: list[QueueInfo]


class GetNews(Request[ClusterNews]):
    """What has changed since."""

    kind: ClassVar[int] = 126
    effect: ClassVar[Effect] = Effect.READS
    asked_by: ClassVar[tuple[Role, ...]] = EVERYBODY

    since: Since


class WaitInfo(msgspec.Struct, array_like=True, frozen=True):
    """Why a job waits, in few words, where it stands in its queue, and when it should start."""

    job: str
    """NAMESPACE/NAME."""
    reason: str
    position: int
    expected_start: ExpectedStart | None
    code: str = ""
    """Of the first reason, one of few (`batch.explain.REASONS`, `behind`, `set-aside`)."""
    plugin: str = ""
    """Of the scheduler, which gives that reason; empty where it is the scheduler itself."""


def with_wait(row: JobInfo, wait: WaitInfo | None) -> JobInfo:
    """The row of a job that waits, or that does not."""
    if wait is None:
        return row if row.position is None else _changed(row, position=None, expected_start=None)
    return _changed(
        row,
        reason=wait.reason or row.reason,
        position=wait.position,
        expected_start=wait.expected_start,
    )


class ListWaiting(Request[list[WaitInfo]]):
    """All jobs that wait for places."""

    kind: ClassVar[int] = 127
    effect: ClassVar[Effect] = Effect.READS
    asked_by: ClassVar[tuple[Role, ...]] = EVERYBODY
