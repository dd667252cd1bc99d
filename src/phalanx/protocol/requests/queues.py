"""What the head answers about queues."""

from __future__ import annotations

from typing import ClassVar

import msgspec

from phalanx.model.rows.work import QueueInfo
from phalanx.protocol.requests.request import EVERYBODY, Effect, Request, Role


class QueueFields(msgspec.Struct, kw_only=True, omit_defaults=True):
    """What may be set of a queue; None: as it is, or as it is by default. Amounts are by resource,
    under the names of tasks' options: {"CPU": 8, "GPU": 2}."""

    weight: int | None = None
    priority: int | None = None
    parent: str | None = None
    reclaimable: bool | None = None
    capability: dict[str, float] | None = None
    deserved: dict[str, float] | None = None
    guarantee: dict[str, float] | None = None
    default_time_s: float | None = None
    max_time_s: float | None = None
    """How long jobs may run that say nothing, and at most; 0: there is no such limit."""
    idle_gpus: str | None = None
    """When GPUs of its jobs count as idle, as `manifests.idle_rules` reads it."""


class CreateQueue(Request[QueueInfo]):
    """A new queue; its row. Raises JobCommandError with all that speaks against it."""

    kind: ClassVar[int] = 70
    effect: ClassVar[Effect] = Effect.ADDS
    asked_by: ClassVar[tuple[Role, ...]] = EVERYBODY

    name: str
    fields: QueueFields


class UpdateQueue(Request[QueueInfo]):
    """Other quotas; its row. Raises QueueUnavailableError when there is no such queue, and
    JobCommandError with all that speaks against the change."""

    kind: ClassVar[int] = 71
    asked_by: ClassVar[tuple[Role, ...]] = EVERYBODY

    name: str
    fields: QueueFields


class OpenQueue(Request[QueueInfo]):
    """Let work in (again), here and into those below that were closed with it; its row. Raises
    QueueUnavailableError and JobCommandError."""

    kind: ClassVar[int] = 72
    asked_by: ClassVar[tuple[Role, ...]] = EVERYBODY

    name: str


class CloseQueue(Request[QueueInfo]):
    """Let no more work in, here and below; its row. Raises QueueUnavailableError and
    JobCommandError."""

    kind: ClassVar[int] = 73
    asked_by: ClassVar[tuple[Role, ...]] = EVERYBODY

    name: str


class DeleteQueue(Request[None]):
    """Forget an empty queue that has none below it. Raises QueueUnavailableError and
    JobCommandError."""

    kind: ClassVar[int] = 74
    asked_by: ClassVar[tuple[Role, ...]] = EVERYBODY

    name: str


class ListQueues(Request[list[QueueInfo]]):
    """All queues, or the one of this name. Raises QueueUnavailableError when there is none."""

    kind: ClassVar[int] = 75
    effect: ClassVar[Effect] = Effect.READS
    asked_by: ClassVar[tuple[Role, ...]] = EVERYBODY

    name: str | None = None


class AdmitQueue(Request[None]):
    """Raises QueueUnavailableError unless the queue takes work. `makes`: one that there is not is
    made."""

    kind: ClassVar[int] = 76

    name: str
    makes: bool = False
