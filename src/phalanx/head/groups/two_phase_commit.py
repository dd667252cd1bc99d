"""Attempts to reserve bundles on nodes in two phases: all bundles of an attempt, or none.

The head asks nodes to prepare, that is, to set their bundles aside. When all nodes have prepared,
the head stores that and asks them to commit. When all have confirmed, the attempt is settled.
Requests are repeated until they are answered, so a lost message costs time but no resources.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import msgspec

from phalanx.head.groups.give_backs import RESEND_S, GiveBacks
from phalanx.model.ids import GroupId


class Attempt(msgspec.Struct, kw_only=True, eq=False):
    """One attempt to reserve bundles of a group. Later attempts of a group have higher numbers."""

    group: GroupId
    number: int
    bundles: Mapping[str, Sequence[int]]
    """The indexes of the bundles that each node is asked to hold."""
    domain: str | None = None
    """The domain that the attempt's nodes share, if the group asks for one."""
    asked: list[str] = []
    """The nodes that were asked to prepare, and therefore may hold bundles."""
    awaiting: set[str] = set()
    """The nodes that have not answered yet."""
    lost: set[str] = set()
    """The nodes that had prepared their bundles but will not keep them."""
    is_committing: bool = False
    is_ordered: bool = False
    """Whether a node was, or may have been, asked to commit."""
    resend_at: float = 0.0

    @property
    def kept(self) -> dict[int, str]:
        """The node of each bundle that is kept when the attempt is settled."""
        return {
            index: node
            for node, indexes in self.bundles.items()
            if node not in self.lost
            for index in indexes
        }


class AttemptOwner(Protocol):
    """Starts attempts, sends their messages, and handles their outcome. The answer to a message may
    arrive before the method that sent the message returns.
    """

    def prepare(self, attempt: Attempt, node_id: str) -> None:
        """Ask the node to set its bundles of the attempt aside, all or none. The answer goes to
        `Attempts.prepared`.
        """
        ...

    def commit(self, attempt: Attempt, node_id: str) -> None:
        """Ask the node to keep the bundles that it has set aside. The answer goes to
        `Attempts.committed`.
        """
        ...

    def when_written(self, action: Callable[[], None]) -> None:
        """Run an action once all changes so far are stored."""
        ...

    def on_prepared(self, attempt: Attempt, now: float) -> None:
        """Store that all nodes have set the attempt's bundles aside, before the nodes commit."""
        ...

    def may_begin(self, attempt: Attempt) -> bool:
        """Whether nodes should commit the bundles that they have set aside. If not, they give the
        bundles back.
        """
        ...

    def on_refused(self, attempt: Attempt, now: float) -> None:
        """Handle a failed attempt. Its bundles are given back."""
        ...

    def on_settled(self, attempt: Attempt, now: float) -> None:
        """Handle an attempt that every node has answered; `attempt.kept` has the committed
        bundles.
        """
        ...


class Attempts:
    """The attempts in progress, at most one for each group."""

    def __init__(self, owner: AttemptOwner, give_backs: GiveBacks) -> None:
        self._owner = owner
        self._give_backs = give_backs
        self._under_way: dict[GroupId, Attempt] = {}

    def get(self, group: GroupId) -> Attempt | None:
        """Return the group's attempt that is in progress, if any."""
        return self._under_way.get(group)

    def begin(self, attempt: Attempt, now: float) -> None:
        """Ask the nodes of a new attempt to prepare."""
        self._under_way[attempt.group] = attempt
        attempt.awaiting = set(attempt.bundles)
        self._send(attempt, now)

    def resume(self, attempt: Attempt, now: float) -> None:
        """Continue, from the next tick on, an attempt that was prepared under an earlier head."""
        self._under_way[attempt.group] = attempt
        attempt.awaiting = set(attempt.bundles) - attempt.lost
        attempt.is_committing = attempt.is_ordered = True
        attempt.resend_at = now

    def call_off(self, group: GroupId) -> Attempt | None:
        """End a group's attempt. The caller must take back the bundles that nodes may still
        hold.
        """
        return self._under_way.pop(group, None)

    def prepared(self, node_id: str, group: GroupId, number: int, ok: bool, now: float) -> None:
        """Handle a node's answer: the node has set its bundles of an attempt aside, or it has no
        room for them. `ok`: whether the bundles are set aside.
        """
        attempt = self._awaited(node_id, group, number, is_committing=False)
        if attempt is None:
            return
        if not ok:
            self._give_up(attempt, now, but=node_id)
            return
        attempt.awaiting.discard(node_id)
        if attempt.awaiting:
            return
        attempt.is_committing = True
        attempt.awaiting = set(attempt.bundles)
        attempt.resend_at = float("inf")
        self._owner.on_prepared(attempt, now)
        # The next head must continue with the bundles that nodes were asked to keep.
        self._owner.when_written(lambda: self._go_on(attempt, now))

    def committed(self, node_id: str, group: GroupId, number: int, ok: bool, now: float) -> None:
        """Handle a node's answer: the node keeps its bundles of an attempt, or it had already given
        them back. `ok`: whether the node keeps the bundles.
        """
        attempt = self._awaited(node_id, group, number, is_committing=True)
        if attempt is None:
            return
        attempt.awaiting.discard(node_id)
        if not ok:
            attempt.lost.add(node_id)
        self._settle(attempt, now)

    def node_gone(self, node_id: str, now: float) -> None:
        """Count a dead node's bundles as lost. The node neither answers nor keeps bundles any
        more.
        """
        for attempt in [one for one in self._under_way.values() if node_id in one.bundles]:
            if self._under_way.get(attempt.group) is not attempt:
                continue  # the end of another attempt has ended this one
            if not attempt.is_committing:
                self._give_up(attempt, now, but=node_id)
                continue
            attempt.awaiting.discard(node_id)
            attempt.lost.add(node_id)
            self._settle(attempt, now)

    def tick(self, now: float) -> None:
        """Repeat the unanswered requests."""
        for attempt in [one for one in self._under_way.values() if now >= one.resend_at]:
            self._go_on(attempt, now)

    def _go_on(self, attempt: Attempt, now: float) -> None:
        """Ask the nodes that have not answered yet, or end the attempt.

        When all nodes have answered, the attempt is settled. It is given up if no node was asked to
        commit and the group may no longer begin. Once a node may have been asked to commit, the
        attempt waits for that node's answer, even if the group is removed. While the node may keep
        its bundles, they must not be placed elsewhere.
        """
        if self._under_way.get(attempt.group) is not attempt:
            return
        is_due = attempt.is_committing and not attempt.is_ordered
        if not attempt.awaiting:
            self._settle(attempt, now)
        elif is_due and not self._owner.may_begin(attempt):
            self._give_up(attempt, now)
        else:
            attempt.is_ordered = attempt.is_committing
            self._send(attempt, now)

    def _send(self, attempt: Attempt, now: float) -> None:
        attempt.resend_at = now + RESEND_S
        was_committing = attempt.is_committing
        for node in attempt.bundles:
            is_the_same = self._under_way.get(attempt.group) is attempt
            if not is_the_same or attempt.is_committing is not was_committing:
                return  # an answer that came at once has ended the attempt or taken it further
            if node not in attempt.awaiting:
                continue
            if was_committing:
                self._owner.commit(attempt, node)
                continue
            if node not in attempt.asked:
                attempt.asked.append(node)
            self._owner.prepare(attempt, node)

    def _awaited(
        self, node_id: str, group: GroupId, number: int, is_committing: bool
    ) -> Attempt | None:
        """Return the attempt that waits for this answer; None without such an attempt.
        `is_committing`: whether it is an answer to `commit`, and not to `prepare`.
        """
        attempt = self._under_way.get(group)
        if attempt is None or attempt.number != number or node_id not in attempt.awaiting:
            return None
        return attempt if attempt.is_committing is is_committing else None

    def _give_up(self, attempt: Attempt, now: float, but: str = "") -> None:
        """End the attempt, and ask all nodes that may have prepared to give their bundles back.
        Node `but` holds no bundle of the attempt, so it is not asked.
        """
        del self._under_way[attempt.group]
        nodes = [node for node in attempt.bundles if node not in attempt.lost]
        for node in nodes if attempt.is_committing else attempt.asked:
            if node != but:
                self._take_back(attempt, node, now)
        self._owner.on_refused(attempt, now)

    def _take_back(self, attempt: Attempt, node: str, now: float) -> None:
        indexes = list(attempt.bundles[node])
        self._give_backs.ask(node, attempt.group, attempt.number, indexes, now)

    def _settle(self, attempt: Attempt, now: float) -> None:
        if not attempt.awaiting:
            del self._under_way[attempt.group]
            self._owner.on_settled(attempt, now)
