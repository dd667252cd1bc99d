"""Requests to the head about queues."""

from __future__ import annotations

from typing import ClassVar

import msgspec

from phalanx.model.rights import Verb
from phalanx.model.rows.work import QueueInfo
from phalanx.protocol.requests.request import EVERYBODY, Effect, Request, Role


class QueueFields(msgspec.Struct, kw_only=True, omit_defaults=True):
    """The settings of a queue. A setting that is None keeps its value or, in a new queue, gets the
    default. Amounts are by resource, as in the options of tasks: {"CPU": 8, "GPU": 2}.
    """

    weight: int | None = None
    priority: int | None = None
    parent: str | None = None
    reclaimable: bool | None = None
    capability: dict[str, float] | None = None
    deserved: dict[str, float] | None = None
    guarantee: dict[str, float] | None = None
    default_time_s: float | None = None
    max_time_s: float | None = None
    """The longest time limit of a job in seconds, which is also the limit of jobs without a limit
    of their own; 0 for no limit.
    """
    idle_gpus: str | None = None
    """The rule by which GPUs of a job count as idle, as `manifests.idle_rules` reads it."""
    submit: str | None = None
    """The people who may submit, in the form of `manifests.people_lists`; "" for no list."""
    admin: str | None = None
    """The people who administer the queue and the queues below it."""


class CreateQueue(Request[QueueInfo]):
    """Create a queue. Returns its row. Raises JobCommandError, which lists all reasons against the
    queue.
    """

    kind: ClassVar[int] = 70
    verb: ClassVar[Verb] = Verb.ADMINISTER
    effect: ClassVar[Effect] = Effect.ADDS
    asked_by: ClassVar[tuple[Role, ...]] = EVERYBODY

    name: str
    fields: QueueFields


class UpdateQueue(Request[QueueInfo]):
    """Change a queue's settings. Returns its row.

    Raises QueueUnavailableError for an unknown queue, and JobCommandError, which lists all reasons
    against the change.
    """

    kind: ClassVar[int] = 71
    verb: ClassVar[Verb] = Verb.ADMINISTER
    asked_by: ClassVar[tuple[Role, ...]] = EVERYBODY

    name: str
    fields: QueueFields


class OpenQueue(Request[QueueInfo]):
    """Open a queue for work, and the queues below it that were closed with it. Returns the queue's
    row.

    Raises QueueUnavailableError and JobCommandError.
    """

    kind: ClassVar[int] = 72
    verb: ClassVar[Verb] = Verb.OPERATE
    asked_by: ClassVar[tuple[Role, ...]] = EVERYBODY

    name: str


class CloseQueue(Request[QueueInfo]):
    """Close a queue, and the queues below it, for new work. Returns its row.

    Raises QueueUnavailableError and JobCommandError.
    """

    kind: ClassVar[int] = 73
    verb: ClassVar[Verb] = Verb.OPERATE
    asked_by: ClassVar[tuple[Role, ...]] = EVERYBODY

    name: str


class DeleteQueue(Request[None]):
    """Delete an empty queue that has no queue below it.

    Raises QueueUnavailableError and JobCommandError.
    """

    kind: ClassVar[int] = 74
    verb: ClassVar[Verb] = Verb.ADMINISTER
    asked_by: ClassVar[tuple[Role, ...]] = EVERYBODY

    name: str


class ListQueues(Request[list[QueueInfo]]):
    """List all queues, or only the queue of this name. Raises QueueUnavailableError for an unknown
    name.
    """

    kind: ClassVar[int] = 75
    verb: ClassVar[Verb] = Verb.SEE
    effect: ClassVar[Effect] = Effect.READS
    asked_by: ClassVar[tuple[Role, ...]] = EVERYBODY

    name: str | None = None


class AdmitQueue(Request[None]):
    """Raise QueueUnavailableError unless a queue takes work. With `makes`, an unknown queue is
    created.
    """

    kind: ClassVar[int] = 76
    verb: ClassVar[Verb] = Verb.SUBMIT

    name: str
    makes: bool = False
