"""Reservations of Ray's resources for gangs: at most one placement group for each attempt.

The messages between the head and the node agents pass through this machine. When the head asks the
first node to prepare bundles of an attempt, the machine asks Ray for all bundles of the attempt. So
both steps run at the same time. The machine passes the last node's answer to the head only when Ray
has granted the reservation. If Ray does not grant it, the head receives a refusal, gives all
bundles back and plans again. The machine removes a placement group when the last of its bundles is
given back. It reports this bundle to the head as free when Ray reports the resources as available.
"""

from __future__ import annotations

import itertools
from collections.abc import Container, Iterable, Mapping
from typing import Any, NamedTuple, Protocol

import msgspec

from phalanx.model.ids import AttemptId, BundleId, GroupId
from phalanx.protocol.bundle_messages import BundlesGone, GiveBackBundles, PrepareBundles, Prepared

Amounts = dict[str, float]


class ReservationEffects(Protocol):
    """The effects that Reservations requests from Ray and from the head. The answer to an effect
    (`granted`, `refused` or `freed`) comes only after the call of the effect has returned.
    """

    def whole(self, key: AttemptId) -> Whole | None:
        """Return an attempt if some nodes have not prepared their bundles yet. Return None if all
        bundles are prepared, or if the attempt is over.
        """
        ...

    def reserve(self, key: AttemptId, bundles: list[tuple[bytes, Amounts]]) -> None:
        """Ask Ray to reserve these bundles, each given as (prefix of the node, amounts). The answer
        is `granted` or `refused`.
        """
        ...

    def withdraw(self, key: AttemptId) -> None:
        """Remove a reservation, whether it was granted or not. `freed` is called when its resources
        are free.
        """
        ...

    def deliver(self, prefix: bytes, message: Any) -> None:
        """Give a node's message to the head now."""
        ...

    def send(self, prefix: bytes, message: Any) -> None:
        """Send a message to a node."""
        ...

    def keep(self, key: AttemptId, row: Row | None) -> None:
        """Store a reservation before Ray is asked for it. If `row` is None, remove it from the
        store.
        """
        ...


class Whole(NamedTuple):
    """All bundles of an attempt. Nodes that are not connected are asked later."""

    bundles: dict[bytes, dict[int, Amounts]]
    """The amounts of each bundle, by node and by the bundle's index."""
    awaited: Container[bytes]
    """The nodes whose answers the head has not received."""


class Row(msgspec.Struct, kw_only=True):
    """A reservation in the store. `bundles` has, for each bundle: its node, its index, and its
    index in Ray's group. The last one is -1 for a bundle without amounts, which Ray's group does
    not contain.
    """

    group: GroupId
    attempt: int
    bundles: list[tuple[bytes, int, int]]


class _Asked(msgspec.Struct, kw_only=True, eq=False):
    """An attempt that is not yet both reserved in Ray and prepared on all nodes."""

    bundles: dict[bytes, dict[int, Amounts]]
    row: Row
    prepared: set[bytes] = set()
    is_granted: bool = False
    last: tuple[bytes, Prepared] | None = None
    """The last node's answer, while it is held back from the head."""


class Reservations:
    """Keeps all reservations, and holds back messages about them."""

    def __init__(self, effects: ReservationEffects) -> None:
        self._effects = effects
        self._asked: dict[AttemptId, _Asked] = {}
        self._held: dict[AttemptId, dict[tuple[bytes, int], int]] = {}
        """The bundles of each attempt that were not given back yet: the index in Ray's group, by
        the bundle's (prefix, index).
        """
        self._going: dict[tuple[bytes, GroupId, int], GiveBackBundles] = {}
        """The bundles that nodes were asked to give back, by (prefix, group, attempt)."""
        self._leaving: dict[AttemptId, list[tuple[bytes, BundlesGone]]] = {}
        """For each withdrawn reservation: the messages for the head that are held back until the
        reservation's resources are free.
        """
        self._refusals: dict[GroupId, int] = {}

    def restore(self, held: Mapping[AttemptId, Mapping[tuple[bytes, int], int]]) -> None:
        """Restore the reservations of an earlier scheduler."""
        self._held = {key: dict(places) for key, places in held.items()}

    def places(self, group: GroupId) -> dict[int, tuple[int, int]]:
        """Return where Ray holds the bundles of a group: (attempt, index in Ray's group), by the
        bundle's index.
        """
        return {
            index: (attempt, at)
            for (of, attempt), places in self._held.items()
            if of == group
            for (_, index), at in places.items()
        }

    def refusals(self, group: GroupId) -> int:
        """Return how often in a row Ray has refused a gang's reservation."""
        return self._refusals.get(group, 0)

    def forget_all_but(self, groups: Container[bytes]) -> None:
        """Forget the refusals of all gangs except these."""
        self._refusals = {g: count for g, count in self._refusals.items() if g in groups}

    @property
    def under_way(self) -> int:
        """The number of attempts that Ray has not granted yet."""
        return len(self._asked)

    @property
    def keys(self) -> list[AttemptId]:
        """The keys of all reservations that Ray was asked for, and that are not removed yet."""
        return [*self._asked, *self._held, *self._leaving]

    # ---- messages in both directions ---------------------------------------------------------

    def outgoing(self, prefix: bytes, message: Any) -> None:
        """Update the reservations because the head sends this message to a node."""
        if isinstance(message, PrepareBundles):
            key = (message.group, message.attempt)
            if key not in self._held and key not in self._asked:
                self._begin(key)
        elif isinstance(message, GiveBackBundles):
            self._going[prefix, message.group, message.attempt] = message
            for key in [k for k in self._asked if k[0] == message.group]:
                if key[1] <= message.attempt:
                    self._abandon(key)

    def _begin(self, key: AttemptId) -> _Asked | None:
        whole = self._effects.whole(key)
        if whole is None:
            return None
        row = Row(group=key[0], attempt=key[1], bundles=_places(whole.bundles))
        prepared = {node for node in whole.bundles if node not in whole.awaited}
        asked = _Asked(bundles=whole.bundles, row=row, prepared=prepared)
        self._asked[key] = asked
        self._effects.keep(key, row)
        self._effects.reserve(
            key,
            [(node, asked.bundles[node][index]) for node, index, at in row.bundles if at >= 0],
        )
        return asked

    def incoming(self, prefix: bytes, message: Any) -> Any:
        """Update the reservations because of a node's message. Returns the message to pass to the
        head now; None if it is held back or needs no passing on.
        """
        if isinstance(message, Prepared):
            return self._prepared(prefix, message)
        if isinstance(message, BundlesGone):
            return self._gone(prefix, message)
        return message

    def _prepared(self, prefix: bytes, message: Prepared) -> Prepared | None:
        key = (message.group, message.attempt)
        asked = self._asked.get(key)
        if asked is None and message.ok and key not in self._held:
            # Ray refused, and the node in whose name the refusal was sent was not connected.
            asked = self._begin(key)
        if asked is None or prefix not in asked.bundles:
            return message
        if asked.last is not None:
            return None  # the node repeats it, because the head has not received the answer yet
        if not message.ok:
            self._abandon(key)
            return message
        asked.prepared.add(prefix)
        if len(asked.prepared) < len(asked.bundles):
            return message
        if asked.is_granted:
            self._hold(key, asked)
            return message
        asked.last = (prefix, message)
        return None

    def _hold(self, key: AttemptId, asked: _Asked) -> None:
        """Note that an attempt's bundles are reserved in Ray and prepared on all nodes."""
        del self._asked[key]
        self._held[key] = {(node, index): at for node, index, at in asked.row.bundles}
        self._refusals.pop(key[0], None)

    def _gone(self, prefix: bytes, message: BundlesGone) -> BundlesGone | None:
        if any((prefix, message) in said for said in self._leaving.values()):
            return None
        going = self._going.pop((prefix, message.group, message.attempt), None)
        if going is None:
            return message
        gone = {(prefix, index) for index in going.indexes}
        emptied = self._drop(message.group, gone, message.attempt)
        if not emptied:
            return message
        self._leaving[emptied[-1]].append((prefix, message))
        return None

    def _drop(
        self, group: GroupId, gone: Iterable[tuple[bytes, int]], last: float = float("inf")
    ) -> list[AttemptId]:
        """Remove the bundles `gone` from a group's attempts up to `last`. Withdraw the reservations
        that then have no bundles, and return their keys.
        """
        emptied = []
        for key in [key for key in self._held if key[0] == group and key[1] <= last]:
            places = self._held[key]
            for place in gone:
                places.pop(place, None)
            if not places:
                del self._held[key]
                self._leaving[key] = []
                self._effects.withdraw(key)
                emptied.append(key)
        return emptied

    def _abandon(self, key: AttemptId) -> None:
        """Withdraw the reservation of an attempt that is over before Ray granted it."""
        del self._asked[key]
        self._leaving[key] = []
        self._effects.withdraw(key)

    # ---- answers of Ray, and news of nodes ---------------------------------------------------

    def granted(self, key: AttemptId) -> None:
        """Note that Ray has reserved the bundles."""
        asked = self._asked.get(key)
        if asked is None:
            return  # the attempt was withdrawn before Ray's answer
        asked.is_granted = True
        if asked.last is not None:
            self._hold(key, asked)
            self._effects.deliver(*asked.last)

    def refused(self, key: AttemptId) -> None:
        """Note that Ray did not reserve the bundles in time, and holds none of them."""
        asked = self._asked.pop(key, None)
        if asked is None:
            return
        self._effects.keep(key, None)
        self._refusals[key[0]] = self._refusals.get(key[0], 0) + 1
        # The refusal is sent in the name of a node whose answer the head has not received.
        unheard = asked.bundles.keys() - asked.prepared
        prefix = asked.last[0] if asked.last is not None else min(unheard)
        # The head asks every node to give back except the one that refused, so this node is asked
        # here.
        indexes = sorted(asked.bundles[prefix])
        self._effects.send(prefix, GiveBackBundles(key[0], key[1], indexes))
        self._effects.deliver(prefix, Prepared(key[0], key[1], False))

    def freed(self, key: AttemptId) -> None:
        """Note that the resources of a withdrawn reservation are free."""
        self._effects.keep(key, None)
        for prefix, message in self._leaving.pop(key, ()):
            self._effects.deliver(prefix, message)

    def joined(self, prefix: bytes, there: set[BundleId]) -> None:
        """Note that a node has joined (again). `there` has the bundles (group, index) on the node;
        all its other bundles are gone.
        """
        self._lose(prefix, there)

    def node_dead(self, prefix: bytes) -> None:
        """Note that a node is dead, and that all its bundles are gone."""
        for place in [place for place in self._going if place[0] == prefix]:
            del self._going[place]
        for key in [key for key, asked in self._asked.items() if prefix in asked.bundles]:
            self._abandon(key)
        self._lose(prefix, set())

    def _lose(self, prefix: bytes, but: set[BundleId]) -> None:
        lost: dict[GroupId, list[tuple[bytes, int]]] = {}
        for (group, _), places in self._held.items():
            for node, index in places:
                if node == prefix and (group, index) not in but:
                    lost.setdefault(group, []).append((node, index))
        for group, gone in lost.items():
            self._drop(group, gone)


def _places(bundles: Mapping[bytes, Mapping[int, Amounts]]) -> list[tuple[bytes, int, int]]:
    """Return the node, the index, and the index in Ray's group of every bundle, sorted by index."""
    found = sorted((index, node) for node, there in bundles.items() for index in there)
    numbers = itertools.count()
    return [
        (node, index, next(numbers) if any(bundles[node][index].values()) else -1)
        for index, node in found
    ]
