"""What the head answers about devices, and about who closes them and nodes."""

from __future__ import annotations

from typing import ClassVar

import msgspec

from phalanx.model.rows.devices import DeviceInfo
from phalanx.protocol.requests.request import EVERYBODY, Effect, Request, Role


class Cordon(Request[bool]):
    """Give a node, or only these of its GPUs, nothing new, until it is uncordoned. What runs goes
    on. False where all that is so already. Raises ValueError for a node or a device that there is
    not. `by`: who asks, as USER@HOST."""

    kind: ClassVar[int] = 35
    asked_by: ClassVar[tuple[Role, ...]] = EVERYBODY

    node_id: str
    devices: list[int]
    reason: str = ""
    by: str = ""


class Uncordon(Request[bool]):
    """Let a node, or these of its GPUs, have new work again: a GPU that is bad counts as well until
    something new happens to it. False where nothing was closed or bad. Raises ValueError for a node
    or a device that there is not."""

    kind: ClassVar[int] = 36
    asked_by: ClassVar[tuple[Role, ...]] = EVERYBODY

    node_id: str
    devices: list[int]


class ListDevices(Request[list[DeviceInfo]]):
    """The GPUs of the living nodes, or of those whose ids are named, as they were read last."""

    kind: ClassVar[int] = 34
    effect: ClassVar[Effect] = Effect.READS
    asked_by: ClassVar[tuple[Role, ...]] = EVERYBODY

    nodes: list[str] = msgspec.field(default_factory=list)
