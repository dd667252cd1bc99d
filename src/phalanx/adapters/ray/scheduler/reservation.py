"""What gangs have of Ray's resources: one placement group for each attempt, or none.

This stands between the control plane and the node agents. When the first node is asked to set
bundles of an attempt aside by Phalanx's own account, Ray is asked for all of it at once, so that
both go on side by side. The control plane hears of the last node's answer only when Ray has granted
it; if Ray does not, it hears a refusal, gives everything back and plans anew. A placement group
goes when the last of its bundles has been given back, and the control plane hears of that last one
when Ray shows its resources as free.
"""

from __future__ import annotations

import itertools
from collections.abc import Container, Iterable, Mapping
from typing import Any, NamedTuple, Protocol

import msgspec

from phalanx.protocol.bundle_messages import BundlesGone, GiveBackBundles, PrepareBundles, Prepared

Key = tuple[bytes, int]
"""A group and the number of its attempt."""
Amounts = dict[str, float]


class ReservationEffects(Protocol):
    """What is asked of Ray and of the control plane. None of it is answered before it returns."""

    def whole(self, key: Key) -> Whole | None:
        """An attempt whose nodes are to set bundles aside; None when it is over, or that is."""
        ...

    def reserve(self, key: Key, bundles: list[tuple[bytes, Amounts]]) -> None:
        """Have Ray set these aside, (prefix of the node, amounts) each; `granted` follows, or
        `refused`."""
        ...

    def withdraw(self, key: Key) -> None:
        """Have Ray take it back, granted or not; `freed` follows when it is free again."""
        ...

    def deliver(self, prefix: bytes, message: Any) -> None:
        """The control plane may hear this message of a node now."""
        ...

    def send(self, prefix: bytes, message: Any) -> None:
        """Tell a node."""
        ...

    def keep(self, key: Key, row: Row | None) -> None:
        """Write down what a reservation is, before Ray is asked for it; None: it is gone."""
        ...


class Whole(NamedTuple):
    """All of an attempt. Nodes that are not connected now are asked later."""

    bundles: dict[bytes, dict[int, Amounts]]
    """By node."""
    awaited: Container[bytes]
    """Nodes whose answer the control plane has not heard."""


class Row(msgspec.Struct, kw_only=True):
    """A reservation as it is stored: the node and index of each bundle, and its place among Ray's
    bundles; -1 for one that asks for nothing, of which Ray does not know."""

    group: bytes
    attempt: int
    bundles: list[tuple[bytes, int, int]]


class _Asked(msgspec.Struct, kw_only=True, eq=False):
    """An attempt that is on its way."""

    bundles: dict[bytes, dict[int, Amounts]]
    row: Row
    prepared: set[bytes] = set()
    is_granted: bool = False
    last: tuple[bytes, Prepared] | None = None
    """The answer that completed it, which the control plane has not heard yet."""


class Reservations:
    """All reservations, and what of them is to be said when."""

    def __init__(self, effects: ReservationEffects) -> None:
        self._effects = effects
        self._asked: dict[Key, _Asked] = {}
        self._held: dict[Key, dict[tuple[bytes, int], int]] = {}
        """(prefix, index) of what is not given back yet, and its place among Ray's bundles."""
        self._going: dict[tuple[bytes, bytes, int], GiveBackBundles] = {}
        """What each (prefix, group, attempt) was asked to give back."""
        self._leaving: dict[Key, list[tuple[bytes, BundlesGone]]] = {}
        """What is to be said when a withdrawn reservation is free."""
        self._refusals: dict[bytes, int] = {}

    def restore(self, held: Mapping[Key, Mapping[tuple[bytes, int], int]]) -> None:
        """Know again what an earlier scheduler held."""
        self._held = {key: dict(places) for key, places in held.items()}

    def places(self, group: bytes) -> dict[int, tuple[int, int]]:
        """Of each bundle of a group that Ray holds: the attempt, and its place in Ray's group."""
        return {
            index: (attempt, at)
            for (of, attempt), places in self._held.items()
            if of == group
            for (_, index), at in places.items()
        }

    def refusals(self, group: bytes) -> int:
        """How often in a row Ray has refused what a gang was to get."""
        return self._refusals.get(group, 0)

    def forget_all_but(self, groups: Container[bytes]) -> None:
        """Other gangs are gone."""
        self._refusals = {g: count for g, count in self._refusals.items() if g in groups}

    @property
    def under_way(self) -> int:
        """How many attempts have not got their places yet."""
        return len(self._asked)

    @property
    def keys(self) -> list[Key]:
        """All that Ray was asked for and that has not gone."""
        return [*self._asked, *self._held, *self._leaving]

    # ---- what passes -------------------------------------------------------------------------

    def outgoing(self, prefix: bytes, message: Any) -> None:
        """The control plane tells a node this."""
        if isinstance(message, PrepareBundles):
            key = (message.group, message.attempt)
            if key not in self._held and key not in self._asked:
                self._begin(key)
        elif isinstance(message, GiveBackBundles):
            self._going[prefix, message.group, message.attempt] = message
            for key in [k for k in self._asked if k[0] == message.group]:
                if key[1] <= message.attempt:
                    self._abandon(key)

    def _begin(self, key: Key) -> _Asked | None:
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
        """A node says this: what the control plane is to hear now, if anything."""
        if isinstance(message, Prepared):
            return self._prepared(prefix, message)
        if isinstance(message, BundlesGone):
            return self._gone(prefix, message)
        return message

    def _prepared(self, prefix: bytes, message: Prepared) -> Prepared | None:
        key = (message.group, message.attempt)
        asked = self._asked.get(key)
        if asked is None and message.ok and key not in self._held:
            # Ray refused, and the node in whose name that was said was not connected.
            asked = self._begin(key)
        if asked is None or prefix not in asked.bundles:
            return message
        if asked.last is not None:
            return None  # it is said again, as nobody has heard of the answer yet
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

    def _hold(self, key: Key, asked: _Asked) -> None:
        """Its nodes and Ray have set it aside."""
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
        self, group: bytes, gone: Iterable[tuple[bytes, int]], last: float = float("inf")
    ) -> list[Key]:
        """These are not held any more by attempts up to `last`; the reservations of which nothing
        is left are withdrawn."""
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

    def _abandon(self, key: Key) -> None:
        """The attempt is over before it has its reservation."""
        del self._asked[key]
        self._leaving[key] = []
        self._effects.withdraw(key)

    # ---- what Ray and the cluster say --------------------------------------------------------

    def granted(self, key: Key) -> None:
        """Ray has set it aside."""
        asked = self._asked.get(key)
        if asked is None:
            return  # it was withdrawn meanwhile
        asked.is_granted = True
        if asked.last is not None:
            self._hold(key, asked)
            self._effects.deliver(*asked.last)

    def refused(self, key: Key) -> None:
        """Ray has not, in time; nothing of it is held."""
        asked = self._asked.pop(key, None)
        if asked is None:
            return
        self._effects.keep(key, None)
        self._refusals[key[0]] = self._refusals.get(key[0], 0) + 1
        # It is said in the name of a node whose answer nobody has heard.
        unheard = asked.bundles.keys() - asked.prepared
        prefix = asked.last[0] if asked.last is not None else min(unheard)
        # The control plane asks everybody to give back but who refused: and this node did not.
        indexes = sorted(asked.bundles[prefix])
        self._effects.send(prefix, GiveBackBundles(key[0], key[1], indexes))
        self._effects.deliver(prefix, Prepared(key[0], key[1], False))

    def freed(self, key: Key) -> None:
        """What was withdrawn is free."""
        self._effects.keep(key, None)
        for prefix, message in self._leaving.pop(key, ()):
            self._effects.deliver(prefix, message)

    def joined(self, prefix: bytes, there: set[tuple[bytes, int]]) -> None:
        """A node joined, for the first time or again, and has these (group, index): what else was
        on it is no more."""
        self._lose(prefix, there)

    def node_dead(self, prefix: bytes) -> None:
        """What was on this node is no more."""
        for place in [place for place in self._going if place[0] == prefix]:
            del self._going[place]
        for key in [key for key, asked in self._asked.items() if prefix in asked.bundles]:
            self._abandon(key)
        self._lose(prefix, set())

    def _lose(self, prefix: bytes, but: set[tuple[bytes, int]]) -> None:
        lost: dict[bytes, list[tuple[bytes, int]]] = {}
        for (group, _), places in self._held.items():
            for node, index in places:
                if node == prefix and (group, index) not in but:
                    lost.setdefault(group, []).append((node, index))
        for group, gone in lost.items():
            self._drop(group, gone)


def _places(bundles: Mapping[bytes, Mapping[int, Amounts]]) -> list[tuple[bytes, int, int]]:
    """(node, index, place among Ray's bundles) of every bundle, by index."""
    found = sorted((index, node) for node, there in bundles.items() for index in there)
    numbers = itertools.count()
    return [
        (node, index, next(numbers) if any(bundles[node][index].values()) else -1)
        for index, node in found
    ]
