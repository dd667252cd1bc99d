"""The gangs of tasks that this process started: held back until placed, ended as one.

A member's task joins its queue only when the gang has its places: thousands of gangs that wait cost
the node nothing. Every method is called with the runtime's lock held unless it says otherwise.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from phalanx.errors import TaskPlacementGroupRemoved
from phalanx.model.ids import INDEX_BITS
from phalanx.objects import failures
from phalanx.objects.reference import ObjectRef, make_ref
from phalanx.owner.tasks.records import PendingTask, Template
from phalanx.protocol.messages import FAILED, Payload, Value
from phalanx.protocol.node_messages import Reply

if TYPE_CHECKING:
    from phalanx.engines.embedded.client.runtime import Runtime
    from phalanx.engines.embedded.client.submission import Submission

TELL_AFTER_S = 0.1
"""A member's end is told with those that end so soon after it."""


class OwnedGang:
    """One gang: its tasks by index, and who of them has ended."""

    def __init__(self, group: bytes, tasks: list[PendingTask], least: int) -> None:
        self.group = group
        self.tasks = tasks
        self.least = least
        self.left = len(tasks)
        self.failed = 0
        self.untold: list[int] = []
        self.untold_since = 0.0
        self.is_failing = False


class _Member:
    """Hangs on a member's first reference, to see its end."""

    __slots__ = ("_gang", "_gangs", "_index")

    def __init__(self, gangs: OwnedGangs, gang: OwnedGang, index: int) -> None:
        self._gangs = gangs
        self._gang = gang
        self._index = index

    @property
    def group(self) -> bytes:
        """Its gang's group."""
        return self._gang.group

    def notify(self, failed: bool = False) -> None:
        """It has its value."""
        self._gangs.ended(self._gang, self._index, failed)


class OwnedGangs:
    """All gangs of tasks that this process owns and that have not ended."""

    def __init__(self, runtime: Runtime, tasks: Submission) -> None:
        self._runtime = runtime
        self._tasks = tasks
        self._partly: dict[bytes, OwnedGang] = {}
        """Gangs with ends that are not told yet."""

    def start(
        self,
        group: bytes,
        templates: list[Template],
        least: int,
        args: Payload,
        inputs: list[ObjectRef[Any]] | None,
        pins: list[Any] | None,
    ) -> list[ObjectRef[Any] | list[ObjectRef[Any]]]:
        """Have a gang's tasks run once it is placed; references by member. Takes the lock."""
        runtime = self._runtime
        me = runtime.process_id
        tasks = []
        for template in templates:
            sequence = runtime.next_sequence()
            base = sequence << INDEX_BITS
            refs = [make_ref(me, base + i) for i in range(1, template.returns + 1)]
            for ref in refs:
                ref._task = sequence
            tasks.append(PendingTask(sequence, template, args, inputs, pins, refs))
        gang = OwnedGang(group, tasks, least)
        with runtime.lock:
            when = time.time()
            for index, task in enumerate(tasks):
                self._tasks.journal.begin(task, when)
                self._tasks.machine.pending[task.number] = task
                runtime.values.add_waiter(task.refs[0], _Member(self, gang, index))
            runtime.requests.then(
                "wait_group", lambda reply: self._placed(gang, reply), group=group
            )
        return [task.refs[0] if len(task.refs) == 1 else task.refs for task in tasks]

    def group_of(self, ref: ObjectRef[Any]) -> bytes | None:
        """The group of the gang that a reference's task is a member of; None once it has ended."""
        with self._runtime.lock:
            found = [m for m in ref._waiters or () if isinstance(m, _Member)]
        return found[0].group if found else None

    def _placed(self, gang: OwnedGang, reply: Reply) -> None:
        """The gang has its places, or is gone."""
        pending = self._tasks.machine.pending
        waiting = [task for task in gang.tasks if task.number in pending]
        if reply.result:
            for task in waiting:
                self._tasks.start(task)
            return
        why = reply.error[1] if reply.error else "its gang was removed"
        error = failures.failed(TaskPlacementGroupRemoved(f"The task was not started: {why}."))
        for task in waiting:
            pending.pop(task.number, None)
            self._tasks.complete_all(task, error)

    def ended(self, gang: OwnedGang, index: int, failed: bool) -> None:
        """A member has its value. With too many failed, the others end with the same error."""
        gang.left -= 1
        gang.failed += failed
        if not gang.untold:
            gang.untold_since = time.monotonic()
        gang.untold.append(index)
        if len(gang.tasks) - gang.failed < gang.least and gang.left and not gang.is_failing:
            gang.is_failing = True
            self._fail_others(gang, gang.tasks[index].refs[0]._value)
        if gang.left:
            self._partly[gang.group] = gang
            return
        self._partly.pop(gang.group, None)
        self._tell(gang)
        for task in gang.tasks:
            self._tasks.machine.forget(task.key)

    def _fail_others(self, gang: OwnedGang, value: Any) -> None:
        """What still runs ends with the gang's places."""
        assert type(value) is Value
        assert value.kind == FAILED
        machine = self._tasks.machine
        for task in gang.tasks:
            if task.refs[0]._value is not None:
                continue
            task.cancelled = "force"
            if task.worker is not None or not machine.withdraw(task):
                machine.pending.pop(task.number, None)
            self._tasks.complete_all(task, value)

    def tick(self, now: float) -> None:
        """Tell of members that ended a while before the others."""
        for gang in list(self._partly.values()):
            if gang.untold and now - gang.untold_since > TELL_AFTER_S:
                self._tell(gang)

    def _tell(self, gang: OwnedGang) -> None:
        told, gang.untold = gang.untold, []
        if not self._runtime.closed:
            self._runtime.requests.tell("batch.end_members", group=gang.group, indexes=told)
