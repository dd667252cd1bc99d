"""Requests to the head about placement groups, including the groups of gangs."""

from __future__ import annotations

from typing import Any, ClassVar

import msgspec

from phalanx.model.ids import GroupId
from phalanx.model.rights import Verb
from phalanx.protocol.requests.request import EVERYBODY, NODES, Effect, Request, Role


class CreateGroup(Request[None]):
    """Reserve these bundles on nodes, by one of Ray's strategies. If they do not all fit, none is
    reserved until they do.

    `selectors`: the required labels for each bundle, or an empty list. `soft_target`: the node that
    STRICT_PACK prefers. A request that is repeated after a restart of the head changes nothing.
    Raises ValueError for invalid bundles.
    """

    kind: ClassVar[int] = 50
    verb: ClassVar[Verb] = Verb.USE
    effect: ClassVar[Effect] = Effect.ADDS

    group: GroupId
    bundles: list[dict[str, float]]
    strategy: str
    name: str
    detached: bool
    selectors: list[dict[str, str]]
    soft_target: str | None = None
    namespace: str = ""
    """The namespace of the name. Names are unique within their namespace."""


class WatchGroup(Request[bool]):
    """Send the asking node the state of a group (`GroupKnown`), now and whenever the group changes.
    Returns False if there is no such group.
    """

    kind: ClassVar[int] = 51
    verb: ClassVar[Verb] = Verb.JOIN
    asked_by: ClassVar[tuple[Role, ...]] = NODES

    group: GroupId


class WaitGroup(Request[bool]):
    """Wait until work may run in a group, or until the group is removed. Returns whether work may
    run.
    """

    kind: ClassVar[int] = 52
    verb: ClassVar[Verb] = Verb.USE

    group: GroupId


class RemoveGroup(Request[None]):
    """Remove a group. The answer comes when the work in its bundles has ended."""

    kind: ClassVar[int] = 53
    verb: ClassVar[Verb] = Verb.USE

    group: GroupId


class ListGroups(Request[list[dict[str, Any]]]):
    """List all groups, in the form of `ray.util.placement_group_table()`."""

    kind: ClassVar[int] = 54
    verb: ClassVar[Verb] = Verb.SEE
    effect: ClassVar[Effect] = Effect.READS
    asked_by: ClassVar[tuple[Role, ...]] = EVERYBODY


class NamedGroup(msgspec.Struct, array_like=True):
    """A group's id, and the amounts that each of its bundles reserves."""

    group: GroupId
    bundles: list[dict[str, float]]


class GetNamedGroup(Request[NamedGroup]):
    """Return the living group with a name in a namespace. Raises ValueError when no living group
    has the name.
    """

    kind: ClassVar[int] = 55
    verb: ClassVar[Verb] = Verb.USE
    effect: ClassVar[Effect] = Effect.READS

    name: str
    namespace: str = ""
