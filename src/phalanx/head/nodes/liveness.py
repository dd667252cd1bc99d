"""Decides which nodes count as alive: how long each may be silent, and why some are not
connected.
"""

from __future__ import annotations

import msgspec

from phalanx.protocol.membership_messages import BeginLease
from phalanx.protocol.report_messages import REPORT_EVERY_S

MIN_SILENCE_S = 1.5 * REPORT_EVERY_S
CONNECTION_ENDED = "its connection ended"
PROCESS_ENDED = "its process ended, and its commands go on"
SHARE = 0.9
"""The fraction of a limit after which a node no longer relies on the limit."""
LEAST_RECONNECT_S = 0.2
"""The smallest `reconnect_s`, in seconds, on which a node relies. With a smaller limit, a node
would have to ask the head before everything that it begins.
"""
LATE_S = 0.3
"""If more than this number of seconds lie between two ticks, the second tick counts as late.
Messages that arrived in between may then still be unread.
"""


class HealthLimits(msgspec.Struct, frozen=True, kw_only=True):
    """The limits after which a silent node counts as dead: `misses` periods. Raises ValueError if
    this time is infinite, or below MIN_SILENCE_S, because healthy nodes would then be declared dead
    between two reports. The defaults equal Ray's health checks: 3 s, 5 misses, and 5 s more for a
    node that starts.
    """

    period_s: float = 3.0
    misses: int = 5
    joining_s: float = 5.0
    """Additional seconds for which a node that has just joined may be silent."""
    reconnect_s: float = 2.0
    """If a node does not come back, it counts as dead this number of seconds after its connection
    ended.
    """
    restart_s: float = 60.0
    """If a node's process has ended and its commands continue: the seconds for which its members
    wait for the node's next process. See docs/decisions/members-outlive-their-node.md.
    """
    restored_s: float = 30.0
    """Additional seconds for which nodes that an earlier head knew may be silent after a restart of
    the head.
    """

    def __post_init__(self) -> None:
        for name in ("period_s", "misses"):
            if not 0 < getattr(self, name) < float("inf"):
                raise ValueError(f"{name} is a number above 0, not {getattr(self, name)}")
        if self.silence_s < MIN_SILENCE_S:
            raise ValueError(
                f"period_s x misses is at least {MIN_SILENCE_S:g} s, not {self.silence_s:g} s: "
                f"healthy nodes report every {REPORT_EVERY_S:g} s"
            )

    @property
    def silence_s(self) -> float:
        """Seconds for which a node may be silent."""
        return self.period_s * self.misses

    @property
    def lease(self) -> BeginLease:
        """The times for which a node may assume that the head has not declared it dead. These times
        are shorter than the limits, because the clocks of machines differ.
        """
        least_s = min(self.silence_s, max(self.reconnect_s, LEAST_RECONNECT_S))
        return BeginLease(SHARE * least_s, SHARE * self.silence_s)


class NodeLiveness:
    """The nodes that count as alive. Draining nodes are among them."""

    def __init__(self, limits: HealthLimits) -> None:
        self._limits = limits
        self._silent_until: dict[str, float] = {}
        """The nodes that are alive, each with the time until which it may be silent."""
        self._awaited: dict[str, str] = {}
        """For each node that is alive but not connected: the reason. Such a node may be back soon.
        """
        self._ticked_at = float("inf")
        self._has_passed_over = False
        """Whether the last tick returned no overdue nodes because it was late."""

    # ---- questions -----------------------------------------------------------------------------

    def is_alive(self, node_id: str) -> bool:
        """Whether the node counts as alive."""
        return node_id in self._silent_until

    def is_here(self, node_id: str) -> bool:
        """Whether the node is alive and connected."""
        return node_id in self._silent_until and node_id not in self._awaited

    def is_expected(self, node_id: str) -> bool:
        """Whether the head is waiting for the node's next process."""
        return self._awaited.get(node_id) == PROCESS_ENDED

    def absence(self, node_id: str) -> str:
        """Return why a node that is alive is not connected; empty if it is connected."""
        return self._awaited.get(node_id, "")

    def overdue_text(self, node_id: str) -> str:
        """Return the reason for declaring an overdue node dead."""
        if node_id in self._awaited:
            return f"{self._awaited[node_id]}, and it did not come back in time"
        return f"it did not report for {self._limits.silence_s:g} s"

    # ---- events --------------------------------------------------------------------------------

    def on_joined(self, node_id: str, now: float) -> None:
        """Note that a node joined, for the first time or again."""
        self._awaited.pop(node_id, None)
        self._silent_until[node_id] = now + self._limits.silence_s + self._limits.joining_s

    def on_report(self, node_id: str, now: float) -> None:
        """Note that a node that is alive reported."""
        self._silent_until[node_id] = now + self._limits.silence_s

    def on_restored(self, node_id: str, now: float) -> None:
        """Note a living node that an earlier head knew."""
        grace_s = self._limits.silence_s + self._limits.restored_s
        self._silent_until[node_id] = now + grace_s
        self._awaited[node_id] = "the head restarted"

    def on_disconnected(self, node_id: str, now: float) -> None:
        """Note that the connection of a node ended. Its process has ended, or the node may soon be
        back.
        """
        self._awaited[node_id] = CONNECTION_ENDED
        until = now + self._limits.reconnect_s
        self._silent_until[node_id] = min(self._silent_until[node_id], until)

    def on_refused(self, node_id: str, reason: str, now: float) -> bool:
        """Note that a running node may not join, for this reason. Returns whether the reason is
        new.

        The node does not count as dead while it repeats its request.
        """
        self._silent_until[node_id] = now + self._limits.silence_s
        is_news = self._awaited.get(node_id) != reason
        self._awaited[node_id] = reason
        return is_news

    def on_process_ended(self, node_id: str, now: float) -> None:
        """Begin to wait for the next process of a node, which can continue with the members
        there.
        """
        self._awaited[node_id] = PROCESS_ENDED
        self._silent_until[node_id] = now + self._limits.restart_s

    def on_dead(self, node_id: str) -> None:
        """Note that a node is dead."""
        del self._silent_until[node_id]
        self._awaited.pop(node_id, None)

    def overdue(self, now: float) -> list[str]:
        """Return the nodes that have been silent for too long. A late tick returns no nodes,
        because messages that were sent in time may be unread. The next tick returns the silent
        nodes even if it is late, too.
        """
        is_late, self._ticked_at = now - self._ticked_at > LATE_S, now
        self._has_passed_over = is_late and not self._has_passed_over
        if self._has_passed_over:
            return []
        return [node_id for node_id, until in self._silent_until.items() if now >= until]
