"""The task or actor call that the current thread (or coroutine) runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextvars import ContextVar
from typing import Any

import msgspec

from phalanx.model.ids import GroupId
from phalanx.model.jobs.gang_view import NO_VIEW, EncodedView, decode_view
from phalanx.protocol.messages import Lease
from phalanx.protocol.node_messages import CreateActor


class TaskContext(msgspec.Struct, eq=False):
    """One run of a task or of an actor's method."""

    owner: bytes
    number: int
    name: str
    attempt: int
    lease: LeaseInfo
    is_actor: bool
    function: Callable[..., Any] | None = None
    """The function of a task; None if this is an actor's call."""
    method: str = ""
    """The name of the method of an actor's call; "" for a task."""
    is_cancelled: bool = False
    leaves: bool = False
    """Whether the call asked that its actor ends."""
    adopted: list[tuple[bytes, int]] | None = None
    """References that came with the arguments. The caller keeps them alive while this call runs."""
    consumed: int = 0
    """The number of items of the stream that the reader has taken."""
    progress: Any = None
    """The waiter that is notified when the reader has taken more items."""

    def is_ahead(self, index: int, backpressure: int) -> bool:
        """Whether item `index` of the stream is as far ahead of the reader as `backpressure`
        allows.

        A negative `backpressure` allows any number of items.
        """
        return 0 <= backpressure <= index - self.consumed


class LeaseInfo:
    """The resources that the current work of this worker holds."""

    __slots__ = ("capture", "devices", "gang", "group", "job", "resources", "variables")

    def __init__(
        self,
        job: bytes,
        resources: dict[str, float],
        devices: dict[str, list[int]],
        group: GroupId | None = None,
        capture: bool = False,
        gang: EncodedView = NO_VIEW,
        variables: Mapping[str, str] | None = None,
    ) -> None:
        self.job = job
        self.resources = resources
        self.devices = devices
        self.group = group
        self.capture = capture
        self.gang = decode_view(gang)
        """The gang, as its member sees it, if the work is a member of one."""
        self.variables = variables or {}
        """The variables that tell the work which parts of shared GPUs it may use."""


def lease_info(order: Lease | CreateActor) -> LeaseInfo:
    """Return the lease information in an order to work."""
    return LeaseInfo(
        order.job,
        order.resources,
        order.devices,
        order.placement_group,
        order.capture,
        order.gang,
        order.variables,
    )


current: ContextVar[TaskContext | None] = ContextVar("phalanx_task", default=None)


class OfProcess:
    """The work of this process, for threads that run no call themselves."""

    __slots__ = ("actor", "lease", "task")

    def __init__(self) -> None:
        self.task: TaskContext | None = None
        """The task or call that began last in this process; None in a driver."""
        self.lease: LeaseInfo | None = None
        """The lease of the work that this process runs or ran last; None in a driver."""
        self.actor: LeaseInfo | None = None
        """The lease of the actor, if this process is an actor."""


of_process = OfProcess()


def current_task() -> TaskContext | None:
    """Return the task or call that the calling thread runs.

    In a thread that the work has started, return the task or call that began last in the process.
    In drivers, return None.
    """
    return current.get() or of_process.task


def current_lease() -> LeaseInfo | None:
    """Return the lease of the calling work.

    In a thread that the work has started, return the lease of the work of the process. In drivers,
    return None.
    """
    task = current.get()
    return of_process.lease if task is None else task.lease


def placing_lease() -> LeaseInfo | None:
    """Return the lease whose placement group is passed on to work that the calling code starts.

    This is the lease of `current_lease`. But as in Ray, it is None in threads that a task has
    started.
    """
    task = current.get()
    return of_process.actor if task is None else task.lease
