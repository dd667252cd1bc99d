"""The invariants of gangs: enough members start together or none starts, and all end together."""

from __future__ import annotations

import msgspec

from phalanx_research.chaos.broken import Broken, group_name
from phalanx_research.chaos.history import History
from phalanx_research.chaos.truth import DONE, Key, Promise


class GangPromise(msgspec.Struct, kw_only=True):
    """The observations about one gang, from which its invariants are checked."""

    min_members: int
    tasks: list[Key]
    begun: set[int] = set()
    """The attempts whose members were ordered to start."""
    failed: int = 0
    """The number of members that failed for a reason of their own."""
    ended_with_it: int = 0
    """The number of members that failed because others had failed."""


class GangPromises:
    """Checks the invariants of gangs of tasks. A gang is named by the id of its group."""

    def __init__(self, history: History, kept: dict[Key, Promise]) -> None:
        self._history = history
        self._kept = kept
        self.gangs: dict[bytes | None, GangPromise] = {}

    def promised(self, group: bytes, min_members: int, tasks: list[Key]) -> None:
        """Record that a driver has requested a gang."""
        self.gangs[group] = GangPromise(min_members=min_members, tasks=tasks)
        self._history.count("gangs")

    def begins(self, group: bytes, attempt: int, placed: int) -> None:
        """Check an attempt when its first members start: enough members must have places."""
        gang = self.gangs.get(group)
        if gang is None or attempt in gang.begun:
            return  # a node that dies between two such orders takes placed members with it
        gang.begun.add(attempt)
        over = sum(bool(self._kept[key].outcome) for key in gang.tasks)
        if placed + over < gang.min_members:
            raise Broken(
                f"gang {group_name(group)} needs {gang.min_members} members at once and begins "
                f"with {placed} placed and {over} over",
                ["head"],
            )

    def member_failed(self, promise: Promise, is_own: bool) -> None:
        """Record that a member has failed. `is_own`: the member did not fail because of other
        members. When too many members have failed, the gang loses its places, and later failures of
        its members are allowed.
        """
        gang = self.gangs.get(promise.group)
        if gang is None or promise.group is None:
            return
        gang.failed += is_own
        gang.ended_with_it += not is_own
        if len(gang.tasks) - gang.failed < gang.min_members:
            self._history.removed_groups.add(promise.group)

    def check(self) -> None:
        """Check that members failed because of other members only after too many had failed."""
        for group, gang in self.gangs.items():
            if gang.ended_with_it and group not in self._history.removed_groups:
                names = sorted({owner for owner, _ in gang.tasks})
                done = sum(self._kept[key].outcome == DONE for key in gang.tasks)
                raise Broken(
                    f"{gang.ended_with_it} members of gang {group_name(group or b'')} failed with "
                    f"others, of which {gang.failed} failed, {done} did not, and it needs "
                    f"{gang.min_members}",
                    names,
                )
