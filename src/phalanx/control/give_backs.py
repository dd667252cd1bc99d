"""Bundles that nodes were told to give back: repeated until they are, or until the node is gone."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

RESEND_S = 1.0


class Ending(msgspec.Struct, frozen=True):
    """How what still runs in a bundle ends: after `grace_s`, with SIGTERM before it if `warn`."""

    warn: bool = False
    grace_s: float = 0.0


AT_ONCE = Ending()

Send = Callable[[str, bytes, int, list[int], Ending], None]
"""Tells (node, group, attempt, bundle indexes, how) to the node."""


class _Asked(msgspec.Struct, kw_only=True):
    attempt: int
    ending: Ending
    indexes: list[int]
    resend_at: float


class GiveBacks:
    """What is still to be free, by group and node."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._asked: dict[bytes, dict[str, _Asked]] = {}

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
        asked = self._asked.setdefault(group, {})
        before = asked.get(node)
        if before is not None:
            attempt = max(attempt, before.attempt)
            indexes = sorted({*indexes, *before.indexes})
        until = now + RESEND_S
        asked[node] = _Asked(attempt=attempt, indexes=indexes, resend_at=until, ending=ending)
        self._send(node, group, attempt, list(indexes), ending)

    def awaited(self, node: str, group: bytes, attempt: int) -> list[int]:
        """The bundles that are free when the node answers this attempt; none if it is late."""
        asked = self._asked.get(group, {}).get(node)
        return list(asked.indexes) if asked is not None and asked.attempt == attempt else []

    def done(self, node: str, group: bytes, attempt: int) -> bool:
        """The node has. Whether nothing of the group is to be given back any more."""
        asked = self._asked.get(group, {})
        if node not in asked or asked[node].attempt != attempt:
            return False
        del asked[node]
        return self._is_over(group)

    def node_gone(self, node: str) -> list[bytes]:
        """The node gives nothing back. The groups of which nothing is left to wait for."""
        concerned = [group for group, asked in self._asked.items() if asked.pop(node, None)]
        return [group for group in concerned if self._is_over(group)]

    def tick(self, now: float) -> None:
        """Repeat what was not answered."""
        for group, asked in list(self._asked.items()):
            for node, one in list(asked.items()):
                if now >= one.resend_at:
                    one.resend_at = now + RESEND_S
                    self._send(node, group, one.attempt, list(one.indexes), one.ending)

    def _is_over(self, group: bytes) -> bool:
        if not self._asked[group]:
            del self._asked[group]
        return group not in self._asked
