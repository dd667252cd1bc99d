"""Requests to the head about devices, and about cordons of devices and nodes."""

from __future__ import annotations

from typing import ClassVar

import msgspec

from phalanx.model.rights import Verb
from phalanx.model.rows.devices import DeviceInfo
from phalanx.protocol.requests.request import EVERYBODY, Effect, Request, Role


class Cordon(Request[bool]):
    """Keep new work away from a node, or only from these GPUs of the node, until the node or the
    GPUs are uncordoned. Running work continues. Returns False if the node, or all named GPUs, are
    already cordoned. Raises ValueError for an unknown node or device. `by`: the asking user, as
    USER@HOST.
    """

    kind: ClassVar[int] = 35
    verb: ClassVar[Verb] = Verb.OPERATE
    asked_by: ClassVar[tuple[Role, ...]] = EVERYBODY

    node_id: str
    devices: list[int]
    reason: str = ""
    by: str = ""


class Uncordon(Request[bool]):
    """Let a node, or only these GPUs of the node, take new work again. A bad GPU then counts as
    healthy until it has a new error. Returns False if neither the node nor a named GPU was cordoned
    or bad. Raises ValueError for an unknown node or device.
    """

    kind: ClassVar[int] = 36
    verb: ClassVar[Verb] = Verb.OPERATE
    asked_by: ClassVar[tuple[Role, ...]] = EVERYBODY

    node_id: str
    devices: list[int]


class ListDevices(Request[list[DeviceInfo]]):
    """List the latest readings of the GPUs of all living nodes, or only of the nodes with these
    ids.
    """

    kind: ClassVar[int] = 34
    verb: ClassVar[Verb] = Verb.SEE
    effect: ClassVar[Effect] = Effect.READS
    asked_by: ClassVar[tuple[Role, ...]] = EVERYBODY

    nodes: list[str] = msgspec.field(default_factory=list)
