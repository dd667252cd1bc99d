"""Attempts to reserve bundles on nodes, in two phases: all of an attempt's bundles, or none.

Nodes are asked to prepare, that is to set their bundles aside. When all have, that is written down
and they are told to commit; when all have confirmed, the attempt is settled. Requests are repeated
until they are answered, so a lost message costs time and no resources.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import msgspec

from phalanx.head.groups.give_backs import RESEND_S, GiveBacks


class Attempt(msgspec.Struct, kw_only=True, eq=False):
    """One try at reserving bundles of a group. The numbers of a group's attempts grow."""

    group: bytes
    number: int
    bundles: Mapping[str, Sequence[int]]
    """The indexes of those that each node is to have."""
    domain: str | None = None
    """The domain that its nodes share, where the group asks for one."""
    asked: list[str] = []
    """Nodes that were asked to prepare, and may hold something."""
    awaiting: set[str] = set()
    """Nodes whose answer is not there yet."""
    lost: set[str] = set()
    """Nodes that had prepared, and do not keep their bundles after all."""
    is_committing: bool = False
    is_ordered: bool = False
    """Whether a node may have been told to commit."""
    resend_at: float = 0.0

    @property
    def kept(self) -> dict[int, str]:
        """The node of each bundle that is kept once the attempt is settled."""
        return {
            index: node
            for node, indexes in self.bundles.items()
            if node not in self.lost
            for index in indexes
        }


class AttemptOwner(Protocol):
    """Who makes attempts, sends their messages, and hears what becomes of them. What is sent may
    be answered before it returns."""

    def prepare(self, attempt: Attempt, node_id: str) -> None:
        """Have the node set its bundles aside, all or none; `prepared` follows."""
        ...

    def commit(self, attempt: Attempt, node_id: str) -> None:
        """Have the node keep what it set aside; `committed` follows."""
        ...

    def when_written(self, action: Callable[[], None]) -> None:
        """Do something once all that has changed so far is stored."""
        ...

    def has_prepared(self, attempt: Attempt, now: float) -> None:
        """All its nodes have set its bundles aside: to be written down before they begin."""
        ...

    def may_begin(self, attempt: Attempt) -> bool:
        """Whether nodes are to keep what they have set aside; else it goes back."""
        ...

    def is_refused(self, attempt: Attempt, now: float) -> None:
        """It came to nothing: what was set aside for it goes back."""
        ...

    def is_settled(self, attempt: Attempt, now: float) -> None:
        """Every node has answered; `attempt.kept` is what is there."""
        ...


class Attempts:
    """All attempts that are under way, at most one for each group."""

    def __init__(self, owner: AttemptOwner, give_backs: GiveBacks) -> None:
        self._owner = owner
        self._give_backs = give_backs
        self._under_way: dict[bytes, Attempt] = {}

    def get(self, group: bytes) -> Attempt | None:
        """The attempt of a group that is under way."""
        return self._under_way.get(group)

    def begin(self, attempt: Attempt, now: float) -> None:
        """Ask the nodes of a new attempt."""
        self._under_way[attempt.group] = attempt
        attempt.awaiting = set(attempt.bundles)
        self._send(attempt, now)

    def resume(self, attempt: Attempt, now: float) -> None:
        """Go on with an attempt that an earlier head knew to be prepared, from the next tick on."""
        self._under_way[attempt.group] = attempt
        attempt.awaiting = set(attempt.bundles) - attempt.lost
        attempt.is_committing = attempt.is_ordered = True
        attempt.resend_at = now

    def call_off(self, group: bytes) -> Attempt | None:
        """End a group's attempt. What its nodes may hold is for the caller to take back."""
        return self._under_way.pop(group, None)

    def prepared(self, node_id: str, group: bytes, number: int, ok: bool, now: float) -> None:
        """A node has set its bundles of an attempt aside, or has no room for them."""
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
        self._owner.has_prepared(attempt, now)
        # The next head has to go on with what nodes were told to keep.
        self._owner.when_written(lambda: self._go_on(attempt, now))

    def committed(self, node_id: str, group: bytes, number: int, ok: bool, now: float) -> None:
        """A node keeps its bundles of an attempt, or had given them back already."""
        attempt = self._awaited(node_id, group, number, is_committing=True)
        if attempt is None:
            return
        attempt.awaiting.discard(node_id)
        if not ok:
            attempt.lost.add(node_id)
        self._settle(attempt, now)

    def node_gone(self, node_id: str, now: float) -> None:
        """A node is dead: it answers nothing any more, and keeps nothing."""
        for attempt in [one for one in self._under_way.values() if node_id in one.bundles]:
            if self._under_way.get(attempt.group) is not attempt:
                continue  # what followed from another one's end has ended it
            if not attempt.is_committing:
                self._give_up(attempt, now, but=node_id)
                continue
            attempt.awaiting.discard(node_id)
            attempt.lost.add(node_id)
            self._settle(attempt, now)

    def tick(self, now: float) -> None:
        """Repeat what was not answered."""
        for attempt in [one for one in self._under_way.values() if now >= one.resend_at]:
            self._go_on(attempt, now)

    def _go_on(self, attempt: Attempt, now: float) -> None:
        """Ask who has not answered.

        What is prepared goes on only if it may begin by then. Once a node may have been told to
        commit, its answer is waited for, whatever became of the group: as long as it may keep its
        bundles, they are nowhere else.
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
                return  # an answer that came at once has ended it, or moved it on
            if node not in attempt.awaiting:
                continue
            if was_committing:
                self._owner.commit(attempt, node)
                continue
            if node not in attempt.asked:
                attempt.asked.append(node)
            self._owner.prepare(attempt, node)

    def _awaited(
        self, node_id: str, group: bytes, number: int, is_committing: bool
    ) -> Attempt | None:
        """The attempt that waits for this answer; None when it is not wanted any more."""
        attempt = self._under_way.get(group)
        if attempt is None or attempt.number != number or node_id not in attempt.awaiting:
            return None
        return attempt if attempt.is_committing is is_committing else None

    def _give_up(self, attempt: Attempt, now: float, but: str = "") -> None:
        """End the attempt: who has prepared, or may have, gives back. `but` has nothing to give."""
        del self._under_way[attempt.group]
        nodes = [node for node in attempt.bundles if node not in attempt.lost]
        for node in nodes if attempt.is_committing else attempt.asked:
            if node != but:
                self._take_back(attempt, node, now)
        self._owner.is_refused(attempt, now)

    def _take_back(self, attempt: Attempt, node: str, now: float) -> None:
        indexes = list(attempt.bundles[node])
        self._give_backs.ask(node, attempt.group, attempt.number, indexes, now)

    def _settle(self, attempt: Attempt, now: float) -> None:
        if not attempt.awaiting:
            del self._under_way[attempt.group]
            self._owner.is_settled(attempt, now)
