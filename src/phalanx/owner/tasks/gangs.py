"""Gangs of tasks. The tasks of a gang are held back until the gang is placed. If too many of them
fail, the others end, too.

The owner queues the tasks only when the gang has its places. So thousands of waiting gangs cost the
node nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from phalanx.errors import TaskPlacementGroupRemoved
from phalanx.model.ids import GangId
from phalanx.objects import failures
from phalanx.objects.reference import ObjectRef
from phalanx.owner.objects.table import ObjectTable
from phalanx.owner.requests import Requests
from phalanx.owner.tasks.records import PendingTask, Template
from phalanx.owner.tasks.submission import Submission
from phalanx.owner.work import FORCED
from phalanx.protocol.messages import FAILED, Payload, Value
from phalanx.protocol.requests.gangs import EndMembers
from phalanx.protocol.requests.groups import WaitGroup

REPORT_AFTER_S = 0.1
"""Seconds for which the report that a member has ended is delayed, so that it can also report other
members.
"""


class OwnedGang:
    """A gang: its tasks by index, and the indexes of the tasks that have ended."""

    def __init__(self, group: GangId, tasks: list[PendingTask], min_members: int) -> None:
        self.group = group
        self.tasks = tasks
        self.min_members = min_members
        self.left = len(tasks)
        self.failed = 0
        self.unreported: list[int] = []
        """The indexes of members whose ends the head does not know yet."""
        self.unreported_since = 0.0
        self.is_failing = False


class _Member:
    """Waits for the first result of a member's task, and then notes that the member has ended."""

    __slots__ = ("_gang", "_gangs", "_index")

    def __init__(self, gangs: OwnedGangs, gang: OwnedGang, index: int) -> None:
        self._gangs = gangs
        self._gang = gang
        self._index = index

    @property
    def group(self) -> bytes:
        """The gang's group."""
        return self._gang.group

    def notify(self, failed: bool = False) -> None:
        """Note that the member has ended, because its first result has come."""
        self._gangs.ended(self._gang, self._index, failed)


class OwnedGangs:
    """All gangs of tasks that this process owns and that have not ended."""

    def __init__(
        self,
        tasks: Submission,
        objects: ObjectTable,
        requests: Requests,
        clock: Callable[[], float],
    ) -> None:
        self._tasks = tasks
        self._objects = objects
        self._requests = requests
        self._clock = clock
        self._partly_ended: dict[bytes, OwnedGang] = {}

    def start(
        self,
        group: GangId,
        templates: list[Template],
        min_members: int,
        args: Payload,
        inputs: list[ObjectRef[Any]] | None,
        pins: list[Any] | None,
    ) -> list[PendingTask]:
        """Run a gang's tasks when the gang is placed. Returns the tasks, in the order of the
        members.

        Each task must have at least one result.
        """
        tasks = [self._tasks.new(one, args, inputs, pins) for one in templates]
        self.begin(group, tasks, min_members)
        return tasks

    def begin(self, group: GangId, tasks: list[PendingTask], min_members: int) -> None:
        """Run new tasks when their gang is placed."""
        for task in tasks:
            self._tasks.hold_back(task)
        gang = OwnedGang(group, tasks, min_members)
        for index, task in enumerate(tasks):
            self._objects.add_waiter(task.refs[0], _Member(self, gang, index))
        self._requests.call_async(WaitGroup(group), partial(self._placed, gang))

    def group_of(self, ref: ObjectRef[Any]) -> bytes | None:
        """Return the group of the gang whose task makes this reference; None after the task has
        ended.
        """
        found = [m for m in ref._waiters or () if isinstance(m, _Member)]
        return found[0].group if found else None

    def _placed(self, gang: OwnedGang, answer: Callable[[], bool]) -> None:
        """Start the tasks of a gang that has its places. If the gang is gone, fail them."""
        pending = self._tasks.machine.pending
        waiting = [task for task in gang.tasks if task.number in pending]
        why = "its gang was removed"
        try:
            has_places = answer()
        except Exception as error:
            has_places, why = False, str(error)
        if has_places:
            for task in waiting:
                self._tasks.start(task)
            return
        removed = failures.failed(TaskPlacementGroupRemoved(f"The task was not started: {why}."))
        for task in waiting:
            pending.pop(task.number, None)
            self._tasks.end(task, removed)

    def ended(self, gang: OwnedGang, index: int, failed: bool) -> None:
        """Note that a member has ended. If fewer than `min_members` members are left that have not
        failed, fail the others with the same error.
        """
        gang.left -= 1
        gang.failed += failed
        if not gang.unreported:
            gang.unreported_since = self._clock()
        gang.unreported.append(index)
        is_lost = len(gang.tasks) - gang.failed < gang.min_members
        if is_lost and gang.left and not gang.is_failing:
            gang.is_failing = True
            self._fail_others(gang, gang.tasks[index].refs[0]._value)
        if gang.left:
            self._partly_ended[gang.group] = gang
            return
        self._partly_ended.pop(gang.group, None)
        self._report(gang)
        for task in gang.tasks:
            self._tasks.machine.forget(task.key)

    def _fail_others(self, gang: OwnedGang, value: Any) -> None:
        """Fail the members that have no result yet. Those that run end because the gang loses its
        places.
        """
        assert type(value) is Value
        assert value.kind == FAILED
        machine = self._tasks.machine
        for task in gang.tasks:
            if task.refs[0]._value is not None:
                continue
            task.cancelled = FORCED
            if task.worker is not None or not machine.withdraw(task):
                machine.pending.pop(task.number, None)
            self._tasks.end(task, value)

    def tick(self, now: float) -> None:
        """Report the members that have ended, when the delay is over."""
        for gang in list(self._partly_ended.values()):
            if gang.unreported and now - gang.unreported_since > REPORT_AFTER_S:
                self._report(gang)

    def _report(self, gang: OwnedGang) -> None:
        ended, gang.unreported = gang.unreported, []
        self._requests.notify(EndMembers(gang.group, ended))
