"""Bundles that nodes must give back. Requests are repeated until the bundles are free or the node
is gone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec

from phalanx.model.ids import GroupId

RESEND_S = 1.0


class Ending(msgspec.Struct, frozen=True):
    """How work that still runs in a bundle is ended: it is killed after `grace_s` seconds and, with
    `warn`, gets SIGTERM first.
    """

    warn: bool = False
    grace_s: float = 0.0


AT_ONCE = Ending()

Send = Callable[[str, GroupId, int, list[int], Ending], None]
"""Asks a node to end bundles. The arguments are the node, the group, the attempt, the indexes of
the bundles, and how their work ends.
"""


class _Asked(msgspec.Struct, kw_only=True):
    ending: Ending
    indexes: list[int]
    resend_at: float


class GiveBacks:
    """The bundles that are not free yet, by group, and by node and attempt. Each attempt has its
    own requests, because a node that freed a bundle of one attempt may already hold it for a later
    attempt.
    """

    def __init__(self, send: Send) -> None:
        self._send = send
        self._asked: dict[GroupId, dict[tuple[str, int], _Asked]] = {}

    def __contains__(self, group: GroupId) -> bool:
        return group in self._asked

    def ask(
        self,
        node: str,
        group: GroupId,
        attempt: int,
        indexes: list[int],
        now: float,
        ending: Ending = AT_ONCE,
    ) -> None:
        """Ask the node to end these bundles of this attempt and of all earlier attempts."""
        self.ask_all({node: indexes}, group, attempt, now, ending)

    def ask_all(
        self,
        bundles: Mapping[str, list[int]],
        group: GroupId,
        attempt: int,
        now: float,
        ending: Ending = AT_ONCE,
    ) -> None:
        """Ask several nodes to end bundles. The group counts as free only when all of them have
        answered.
        """
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

    def is_asked(self, node: str, group: GroupId, attempt: int, index: int) -> bool:
        """Whether the node was asked to end this bundle, for that attempt or a later one, and has
        not confirmed the end yet.
        """
        return any(
            at == node and number >= attempt and index in one.indexes
            for (at, number), one in self._asked.get(group, {}).items()
        )

    def awaited(self, node: str, group: GroupId, attempt: int) -> list[int]:
        """Return the bundles that a node frees with its answer for this attempt; an empty list for
        a repeated answer.
        """
        asked = self._asked.get(group, {}).get((node, attempt))
        return list(asked.indexes) if asked is not None else []

    def done(self, node: str, group: GroupId, attempt: int) -> bool:
        """Record the node's answer. Returns whether the group has no more bundles to give back."""
        asked = self._asked.get(group, {})
        if asked.pop((node, attempt), None) is None:
            return False
        return self._close_if_answered(group)

    def node_gone(self, node: str) -> list[GroupId]:
        """Note that the node is dead. Returns the groups that now have nothing left to give
        back.
        """
        concerned = []
        for group, asked in self._asked.items():
            gone = [key for key in asked if key[0] == node]
            for key in gone:
                del asked[key]
            if gone:
                concerned.append(group)
        return [group for group in concerned if self._close_if_answered(group)]

    def tick(self, now: float) -> None:
        """Repeat the requests that were not answered."""
        for group, asked in list(self._asked.items()):
            for (node, attempt), one in list(asked.items()):
                if now >= one.resend_at:
                    one.resend_at = now + RESEND_S
                    self._send(node, group, attempt, list(one.indexes), one.ending)

    def _close_if_answered(self, group: GroupId) -> bool:
        """Forget a group if all of its requests were answered. Returns whether the group was
        forgotten.
        """
        if not self._asked[group]:
            del self._asked[group]
        return group not in self._asked
