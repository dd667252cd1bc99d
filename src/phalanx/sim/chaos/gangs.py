"""A simulated owner's gangs of tasks, held back until placed: as `embedded.client.gangs`."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from phalanx.owner.tasks.records import PendingTask, Template
from phalanx.protocol.requests.gangs import EndMembers
from phalanx.protocol.requests.groups import WaitGroup
from phalanx.sim.chaos.worker import Work

if TYPE_CHECKING:
    from phalanx.sim.chaos.driver import SimDriver
    from phalanx.sim.chaos.submission import SimSubmission

TELL_AFTER_S = 0.1


class SimGang:
    """One gang: its tasks by index, and who of them has ended."""

    def __init__(self, group: bytes, tasks: list[PendingTask], least: int) -> None:
        self.group = group
        self.tasks = tasks
        self.least = least
        self.over: set[int] = set()
        self.failed = 0
        self.untold: list[int] = []
        self.untold_since = 0.0


class SimGangs:
    """All gangs of tasks that a driver owns and that have not ended."""

    def __init__(self, driver: SimDriver, tasks: SimSubmission) -> None:
        self._driver = driver
        self._tasks = tasks
        self._of: dict[int, tuple[SimGang, int]] = {}
        """By a member's task."""
        self._partly: dict[bytes, SimGang] = {}

    def start(self, group: bytes, templates: list[Template], works: list[Work], least: int) -> None:
        """Have a gang's tasks run once it is placed."""
        promise = self._tasks.promise
        tasks = [promise(one, work) for one, work in zip(templates, works, strict=True)]
        gang = SimGang(group, tasks, least)
        self._of |= {task.number: (gang, index) for index, task in enumerate(tasks)}
        keys = [(self._driver.name, task.number) for task in tasks]
        self._driver.world.promises.gang_promised(group, least, keys)
        self._driver.ask(WaitGroup(group), partial(self._placed, gang))

    def _placed(self, gang: SimGang, answer: Callable[[], bool]) -> None:
        has_places = answer()
        pending = self._tasks.machine.pending
        waiting = [task for task in gang.tasks if task.number in pending]
        for task in waiting:
            if has_places:
                self._tasks.start(task)
            else:
                pending.pop(task.number, None)
                self._tasks.over(task, "TaskPlacementGroupRemoved", "its gang was removed")

    def ended(self, task: PendingTask, failed: bool) -> None:
        """A task is over. With too many of its gang failed, the others end as well."""
        found = self._of.pop(task.number, None)
        if found is None:
            return
        gang, index = found
        gang.over.add(index)
        gang.failed += failed
        if not gang.untold:
            gang.untold_since = self._driver.host.clock()
        gang.untold.append(index)
        if failed and len(gang.tasks) - gang.failed < gang.least:
            self._driver.world.removed_groups.add(gang.group)
            self._fail_others(gang)
        if len(gang.over) < len(gang.tasks):
            self._partly[gang.group] = gang
            return
        self._partly.pop(gang.group, None)
        self._tell(gang)
        for one in gang.tasks:
            self._tasks.machine.forget(one.key)

    def _fail_others(self, gang: SimGang) -> None:
        machine = self._tasks.machine
        for task in gang.tasks:
            if task.number not in self._of:
                continue
            if task.worker is not None or not machine.withdraw(task):
                machine.pending.pop(task.number, None)
            self._tasks.over(task, "gang failed", "too many of its gang failed")
            task.cancelled = "force"

    def tick(self, now: float) -> None:
        """Tell of members that ended a while before the others."""
        for gang in list(self._partly.values()):
            if gang.untold and now - gang.untold_since > TELL_AFTER_S:
                self._tell(gang)

    def _tell(self, gang: SimGang) -> None:
        told, gang.untold = gang.untold, []
        self._driver.notify(EndMembers(gang.group, told))
