"""Which task or actor call this thread (or coroutine) runs."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any

import msgspec

from phalanx.model.jobs.gang_view import GangView


class TaskContext:
    """One run of a task or of an actor's method."""

    __slots__ = (
        "adopted",
        "attempt",
        "consumed",
        "function_name",
        "is_actor",
        "is_cancelled",
        "lease",
        "name",
        "number",
        "owner",
        "progress",
        "thread",
    )

    def __init__(
        self, owner: bytes, number: int, name: str, attempt: int, lease: LeaseInfo, is_actor: bool
    ) -> None:
        self.owner = owner
        self.number = number
        self.name = name
        self.function_name = name
        self.attempt = attempt
        self.lease = lease
        self.is_actor = is_actor
        self.is_cancelled = False
        self.adopted: list[tuple[bytes, int]] | None = None
        """References that came with the arguments: kept by the caller while this runs."""
        self.consumed = 0
        self.progress: Any = None
        self.thread = 0


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
        """What is told to the member of a gang that this work is."""


current: ContextVar[TaskContext | None] = ContextVar("phalanx_task", default=None)
