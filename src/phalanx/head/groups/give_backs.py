"""Bundles that nodes are to give back: asked for until they are, or until the node is gone."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec

RESEND_S = 1.0


class Ending(msgspec.Struct, frozen=True):
    """How what still runs in a bundle ends: after `grace_s`, with SIGTERM before it if `warn`."""

    warn: bool = False
    grace_s: float = 0.0


AT_ONCE = Ending()

Send = Callable[[str, bytes, int, list[int], Ending], None]
"""Sends (node, group, attempt, bundle indexes, how) to the node."""


class _Asked(msgspec.Struct, kw_only=True):
    ending: Ending
    indexes: list[int]
    resend_at: float


class GiveBacks:
    """What is still to be free, by group, and by node and attempt.

    Requests of different attempts stay apart: a bundle that one of them ended may be kept there by
    a later attempt when the next one comes.
    """

    def __init__(self, send: Send) -> None:
        self._send = send
        self._asked: dict[bytes, dict[tuple[str, int], _Asked]] = {}

    def __contains__(self, group: bytes) -> bool:
        return group in self._asked

    def ask(
        self,
        node: str,
        group: bytes,
        attempt: int,
        indexes: list[int],
        now: float,
        ending: Ending = AT_ONCE,
    ) -> None:
        """Have the node end these bundles of attempts up to this one."""
        self.ask_all({node: indexes}, group, attempt, now, ending)

    def ask_all(
        self,
        bundles: Mapping[str, list[int]],
        group: bytes,
        attempt: int,
        now: float,
        ending: Ending = AT_ONCE,
    ) -> None:
        """The same of several nodes: the group is not free before all of them have answered."""
        asked = self._asked.setdefault(group, {})
        for node, indexes in bundles.items():
            before = asked.get((node, attempt))
            listed = indexes if before is None else sorted({*indexes, *before.indexes})
            until = now + RESEND_S
            asked[node, attempt] = _Asked(indexes=listed, resend_at=until, ending=ending)
        for node in bundles:
            one = asked.get((node, attempt))
            if one is not None:
                self._send(node, group, attempt, list(one.indexes), one.ending)

    def is_asked(self, node: str, group: bytes, attempt: int, index: int) -> bool:
        """Whether the node has yet to end this bundle, which it has of that attempt."""
        return any(
            at == node and number >= attempt and index in one.indexes
            for (at, number), one in self._asked.get(group, {}).items()
        )

    def awaited(self, node: str, group: bytes, attempt: int) -> list[int]:
        """The bundles that are free when the node answers this attempt; none if it has before."""
        asked = self._asked.get(group, {}).get((node, attempt))
        return list(asked.indexes) if asked is not None else []

    def done(self, node: str, group: bytes, attempt: int) -> bool:
        """The node has. Whether nothing of the group is to be given back any more."""
        asked = self._asked.get(group, {})
        if asked.pop((node, attempt), None) is None:
            return False
        return self._is_over(group)

    def node_gone(self, node: str) -> list[bytes]:
        """The node gives nothing back. The groups of which nothing is left to wait for."""
        concerned = []
        for group, asked in self._asked.items():
            gone = [key for key in asked if key[0] == node]
            for key in gone:
                del asked[key]
            if gone:
                concerned.append(group)
        return [group for group in concerned if self._is_over(group)]

    def tick(self, now: float) -> None:
        """Repeat what was not answered."""
        for group, asked in list(self._asked.items()):
            for (node, attempt), one in list(asked.items()):
                if now >= one.resend_at:
                    one.resend_at = now + RESEND_S
                    self._send(node, group, attempt, list(one.indexes), one.ending)

    def _is_over(self, group: bytes) -> bool:
        if not self._asked[group]:
            del self._asked[group]
        return group not in self._asked
