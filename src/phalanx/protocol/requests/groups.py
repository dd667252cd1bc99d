"""What the head answers about placement groups, those of gangs among them."""

from __future__ import annotations

from typing import Any, ClassVar

import msgspec

from phalanx.protocol.requests.request import EVERYBODY, NODES, Effect, Request, Role


class CreateGroup(Request[None]):
    """Reserve bundles, all or none, by a strategy of Ray's. `selectors`: labels for each bundle, or
    none at all; `soft_target`: the node that STRICT_PACK takes when it can. Asked again after a
    head came back it changes nothing. Raises ValueError for bundles that cannot be."""

    kind: ClassVar[int] = 50
    effect: ClassVar[Effect] = Effect.ADDS

    group: bytes
    bundles: list[dict[str, float]]
    strategy: str
    name: str
    detached: bool
    selectors: list[dict[str, str]]
    soft_target: str | None = None
    namespace: str = ""
    """Names are unique within one."""


class WatchGroup(Request[bool]):
    """Tell the asking node of a group (`GroupKnown`), now and whenever it changes. False when
    there is no such group."""

    kind: ClassVar[int] = 51
    asked_by: ClassVar[tuple[Role, ...]] = NODES

    group: bytes


class WaitGroup(Request[bool]):
    """Answered when what waits for a group may run in it (True), or it is removed (False)."""

    kind: ClassVar[int] = 52

    group: bytes


class RemoveGroup(Request[None]):
    """Give a group's bundles back. Answered when what ran in them has ended."""

    kind: ClassVar[int] = 53

    group: bytes


class ListGroups(Request[list[dict[str, Any]]]):
    """All groups, in the form of `ray.util.placement_group_table()`."""

    kind: ClassVar[int] = 54
    effect: ClassVar[Effect] = Effect.READS
    asked_by: ClassVar[tuple[Role, ...]] = EVERYBODY


class NamedGroup(msgspec.Struct, array_like=True):
    """A group's id, and what each of its bundles reserves."""

    group: bytes
    bundles: list[dict[str, float]]


class GetNamedGroup(Request[NamedGroup]):
    """The living group of a name in a namespace. Raises ValueError when there is none."""

    kind: ClassVar[int] = 55
    effect: ClassVar[Effect] = Effect.READS

    name: str
    namespace: str = ""
