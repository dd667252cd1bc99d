"""Which task or actor call this thread (or coroutine) runs."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

import msgspec

from phalanx.model.jobs.gang_view import GangView
from phalanx.protocol.messages import Lease
from phalanx.protocol.node_messages import CreateActor


class TaskContext:
    """One run of a task or of an actor's method."""

    __slots__ = (
        "adopted",
        "attempt",
        "consumed",
        "function",
        "is_actor",
        "is_cancelled",
        "lease",
        "leaves",
        "method",
        "name",
        "number",
        "owner",
        "progress",
    )

    def __init__(
        self, owner: bytes, number: int, name: str, attempt: int, lease: LeaseInfo, is_actor: bool
    ) -> None:
        self.owner = owner
        self.number = number
        self.name = name
        self.function: Callable[..., Any] | None = None
        """What runs, of a task."""
        self.method = ""
        """What runs, of an actor."""
        self.attempt = attempt
        self.lease = lease
        self.is_actor = is_actor
        self.is_cancelled = False
        self.leaves = False
        """Whether it asked for the end of its actor."""
        self.adopted: list[tuple[bytes, int]] | None = None
        """References that came with the arguments: kept by the caller while this runs."""
        self.consumed = 0
        """How many items of its stream the reader has taken."""
        self.progress: Any = None
        """Whoever waits until the reader has taken more."""

    def is_ahead(self, index: int, backpressure: int) -> bool:
        """Whether item `index` of its stream is as far ahead of the reader as is allowed; negative
        `backpressure`: any number of items is."""
        return 0 <= backpressure <= index - self.consumed


class LeaseInfo:
    """The resources that this worker's current work holds."""

    __slots__ = ("capture", "devices", "gang", "group", "job", "resources")

    def __init__(
        self,
        job: bytes,
        resources: dict[str, float],
        devices: dict[str, list[int]],
        group: bytes | None = None,
        capture: bool = False,
        gang: bytes = b"",
    ) -> None:
        self.job = job
        self.resources = resources
        self.devices = devices
        self.group = group
        self.capture = capture
        self.gang = msgspec.msgpack.decode(gang, type=GangView) if gang else None
        """What the member of a gang knows of its gang, if this work is one."""


def lease_info(order: Lease | CreateActor) -> LeaseInfo:
    """What an order to work says of the resources that the work holds."""
    return LeaseInfo(
        order.job,
        order.resources,
        order.devices,
        order.placement_group,
        order.capture,
        order.gang,
    )


current: ContextVar[TaskContext | None] = ContextVar("phalanx_task", default=None)


class OfProcess:
    """What threads see that no call runs in."""

    __slots__ = ("actor", "lease", "task")

    def __init__(self) -> None:
        self.task: TaskContext | None = None
        """What has begun last here; None in a driver."""
        self.lease: LeaseInfo | None = None
        """Of what this process runs, or has run last; None in a driver."""
        self.actor: LeaseInfo | None = None
        """The same of an actor alone."""


of_process = OfProcess()


def current_task() -> TaskContext | None:
    """What the calling thread runs; in a thread that the work has started, what has begun last in
    its process. None in drivers."""
    return current.get() or of_process.task


def current_lease() -> LeaseInfo | None:
    """What the calling work holds; in a thread that no call runs in, which the work has started,
    what its process's work holds. None in drivers."""
    task = current.get()
    return of_process.lease if task is None else task.lease


def placing_lease() -> LeaseInfo | None:
    """The lease whose placement group the calling work is in, and hands on: as `current_lease`, but
    none in the threads of a task, as on Ray."""
    task = current.get()
    return of_process.actor if task is None else task.lease
