"""The registry of all gangs that are not over, with indexes that follow their members' states."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping

from phalanx.head.gangs.cycle_window import CycleWindow
from phalanx.head.gangs.gang import Gang
from phalanx.head.gangs.member_lifecycle import Move
from phalanx.head.gangs.member_states import HOLDING, WAITING
from phalanx.head.gangs.queue_positions import QueuePositions, came
from phalanx.model.ids import GroupId, JobId
from phalanx.model.rows.work import Amounts

Keep = Callable[[str, bytes, Gang | None], None]
"""Stores a gang in a table, by its group. With None in place of the gang, the row is deleted."""


def one_of_each_name(gangs: Iterable[Gang]) -> tuple[list[Gang], list[Gang]]:
    """Return the gangs with which a head continues, in the order of their creation, and the gangs
    that it forgets, because another gang has the same name.

    Two gangs of one name exist only in a store that lost its last writes. They are a job's former
    gang, whose deletion was lost, and the job's next gang. Members are identified by names, so only
    one of the two gangs continues: the gang that is not removed, or else the younger one. Nodes
    give back the bundles of the other gang when they join.
    """
    best: dict[str, Gang] = {}
    twins = []
    for gang in sorted(gangs, key=lambda gang: (not gang.is_removed, gang.created)):
        if gang.uid in best:
            twins.append(best[gang.uid])
        best[gang.uid] = gang
    return sorted(best.values(), key=came), twins


class GangRegistry:
    """All gangs by the id of their group, and members by the name of their task. The registry
    follows the life cycle of members.
    """

    def __init__(self, keep: Keep, queues_changed: Callable[[], None]) -> None:
        """`queues_changed` is called when the set of queues that have gangs changes."""
        self._keep = keep
        self._queues_changed = queues_changed
        self.follow: Callable[[Gang], None] = lambda gang: None
        """Called with every gang that changes or is over."""
        self.gangs: dict[GroupId, Gang] = {}
        self.named: dict[str, Gang] = {}
        """All gangs by their `uid`."""
        self.member_of: dict[str, tuple[Gang, int]] = {}
        self.waiting: dict[GroupId, Gang] = {}
        """Gangs with members that wait for places."""
        self.lines = QueuePositions()
        """The positions of waiting gangs in their queues, by time of arrival."""
        self.active: dict[GroupId, Gang] = {}
        """Gangs with members that take, or may take, resources of nodes."""
        self.priorities: dict[str, Counter[int]] = {}
        """For each queue: the number of its active gangs, by priority."""
        self._queues: dict[str, dict[GroupId, Gang]] = {}
        self.window = CycleWindow()

    def add(self, gang: Gang) -> None:
        """Add and store a new gang."""
        self.know(gang)
        self.keep(gang)

    def know(self, gang: Gang) -> None:
        """Add a gang that the store already has."""
        self.gangs[gang.gang_id] = self.named[gang.uid] = gang
        if gang.queue not in self._queues:
            self._queues[gang.queue] = {}
            self._queues_changed()
        self._queues[gang.queue][gang.gang_id] = gang
        self.window.add(gang)
        self._look_at(gang)
        self._know_members(gang)
        self.follow(gang)

    def members_added(self, gang: Gang) -> None:
        """Add and store new members of a gang."""
        self._know_members(gang)
        self.keep(gang)

    def _know_members(self, gang: Gang) -> None:
        for index in range(len(gang.members)):
            self.member_of[gang.task(index)] = (gang, index)

    def rename(self, gang: Gang, name: str, job: JobId) -> None:
        """Give a gang the name of another job, to which the gang now belongs."""
        del self.named[gang.uid]
        for index in range(len(gang.members)):
            del self.member_of[gang.task(index)]
        gang.name, gang.job = name, job
        del gang.uid  # this drops the cached value, which has the old name
        self.named[gang.uid] = gang
        self._know_members(gang)
        self.keep(gang)

    def remove(self, gang: Gang) -> None:
        """Remove a gang that is over."""
        del self.gangs[gang.gang_id], self.named[gang.uid]
        of_queue = self._queues[gang.queue]
        del of_queue[gang.gang_id]
        if not of_queue:
            del self._queues[gang.queue]
            self._queues_changed()
        self.window.remove(gang)
        for index in range(len(gang.members)):
            del self.member_of[gang.task(index)]
        self.forget(gang)

    def forget(self, gang: Gang) -> None:
        """Delete a gang from the store."""
        self._keep("gangs", gang.gang_id, None)
        self.follow(gang)

    def keep(self, gang: Gang) -> None:
        """Store a gang."""
        self._keep("gangs", gang.gang_id, gang)
        self.follow(gang)

    def clock_stepped(self, step_s: float) -> None:
        """Shift the recorded times after the clock was stepped by this many seconds. The order of
        gangs stays the same.
        """
        for gang in self.gangs.values():
            gang.clock_stepped(step_s)
        for gang in self.gangs.values():
            self.keep(gang)

    # ---- indexes -----------------------------------------------------------------------------

    def members_moved(self, gang: Gang, move: Move) -> None:
        """Update the indexes for a gang whose members moved."""
        self._look_at(gang)
        self.follow(gang)

    def _look_at(self, gang: Gang) -> None:
        group = gang.gang_id
        if gang.waits is not (group in self.waiting):
            if gang.waits:
                self.waiting[group] = gang
                self.lines.enter(gang)
            else:
                del self.waiting[group]
                self.lines.leave(gang)
        if gang.holds is (group in self.active):
            return
        priorities = self.priorities.get(gang.queue)
        if priorities is None:
            priorities = self.priorities[gang.queue] = Counter()
        if group in self.active:
            del self.active[group]
            priorities[gang.priority] -= 1
            if not priorities[gang.priority]:
                del priorities[gang.priority]
        else:
            self.active[group] = gang
            priorities[gang.priority] += 1

    # ---- questions ---------------------------------------------------------------------------

    @property
    def queues(self) -> frozenset[str]:
        """The queues that have any gang."""
        return frozenset(self._queues)

    def looked_at(self) -> list[Gang]:
        """Return the gangs with waiting members that cycles consider."""
        seen, waiting = self.window.seen, self.waiting
        few, many = (seen, waiting) if len(seen) < len(waiting) else (waiting, seen)
        return [gang for group, gang in few.items() if group in many]

    def of_queue(self, queue: str) -> Mapping[GroupId, Gang]:
        """Return the gangs of a queue."""
        return self._queues.get(queue, {})

    def amounts(self, queue: str) -> tuple[Amounts, Amounts]:
        """Return the amounts that the queue's gangs hold, and the amounts that they wait for, in
        the units of leases.
        """
        held: Amounts = {}
        asked: Amounts = {}
        for gang in self.of_queue(queue).values():
            for member in gang.members:
                into = held if member.state in HOLDING else asked
                if into is held or member.state == WAITING:
                    for name, amount in member.need.items():
                        into[name] = into.get(name, 0.0) + amount
        return held, asked

    def counts(self, queue: str) -> tuple[dict[str, int], int]:
        """Return the number of a queue's gangs in each phase, and the number of members in the
        queue that hold resources.
        """
        phases: dict[str, int] = {}
        members = 0
        for gang in self.of_queue(queue).values():
            phase = gang.phase
            phases[phase] = phases.get(phase, 0) + 1
            for member in gang.members:
                if member.state in HOLDING:
                    members += 1
        return phases, members
