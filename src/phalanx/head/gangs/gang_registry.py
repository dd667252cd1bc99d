"""All gangs that are not over, and what cycles are told of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from phalanx.batch.config import Configuration
from phalanx.batch.specs import Snapshot
from phalanx.head.gangs.admission_window import AdmissionWindow
from phalanx.head.gangs.gang import ENDING, HOLDING, LEAVING, Gang
from phalanx.head.gangs.podgroups import PodGroups
from phalanx.head.gangs.scheduler_cache import SchedulerCache
from phalanx.resources.sets import EMPTY, ResourceSet

if TYPE_CHECKING:
    from phalanx.head.control_plane import ControlPlane


class GangRegistry:
    """Gangs by the ids of their groups, and members by the names of their tasks."""

    def __init__(
        self, shell: ControlPlane, config: Configuration, truth: Callable[[], Snapshot]
    ) -> None:
        self._shell = shell
        self.gangs: dict[bytes, Gang] = {}
        self.member_of: dict[str, tuple[Gang, int]] = {}
        self.active: dict[bytes, Gang] = {}
        """Gangs of which members hold something."""
        self.window = AdmissionWindow()
        self.podgroups = PodGroups()
        self.cache = SchedulerCache(config, truth)

    def add(self, gang: Gang) -> None:
        """A gang has come, or is known again."""
        self.gangs[gang.group] = gang
        self.window.add(gang)
        if gang.among(*HOLDING):
            self.active[gang.group] = gang
        self.know_members(gang)

    def know_members(self, gang: Gang) -> None:
        """It has these members from now on."""
        for index in range(len(gang.needs)):
            self.member_of[gang.task(index)] = (gang, index)
        self.keep(gang)

    def remove(self, gang: Gang) -> None:
        """It is over."""
        del self.gangs[gang.group]
        self.active.pop(gang.group, None)
        self.window.remove(gang)
        self.podgroups.forget(gang)
        for index in range(len(gang.needs)):
            del self.member_of[gang.task(index)]
        self._shell.state_store.keep("gangs", gang.group, None)

    def keep(self, gang: Gang) -> None:
        """Write it down."""
        self._shell.state_store.keep("gangs", gang.group, gang)

    def nodes_of(self, gang: Gang) -> list[str]:
        """The node of each member: also of who is being placed, and of who still gives back."""
        group = self._shell.group_table.get(gang.group)
        nodes = list(group.nodes) if group is not None else [""] * len(gang.needs)
        for index in gang.among(LEAVING, ENDING):
            nodes[index] = nodes[index] or gang.put_on.get(index, "")
        if group is not None and group.attempt is not None:
            for node, bundles in group.attempt.bundles.items():
                for index in bundles:
                    nodes[index] = node
        return nodes

    def on_the_way(self, gang: Gang) -> set[int]:
        """The members whose nodes are being asked now."""
        group = self._shell.group_table.get(gang.group)
        if group is None or group.attempt is None:
            return set()
        return {index for bundles in group.attempt.bundles.values() for index in bundles}

    def held(self) -> dict[str, ResourceSet]:
        """What gangs hold of each node."""
        held: dict[str, ResourceSet] = {}
        for group, gang in list(self.active.items()):
            nodes = self.nodes_of(gang)
            holding = gang.among(*HOLDING)
            if not holding:
                del self.active[group]
            for index in holding:
                if nodes[index]:
                    need = ResourceSet.from_mapping(gang.needs[index])
                    held[nodes[index]] = held.get(nodes[index], EMPTY) + need
        return held

    def counts(self, queue: str) -> tuple[dict[str, int], int]:
        """A queue's gangs by phase, and how many members hold something in it."""
        phases: dict[str, int] = {}
        members = 0
        for gang in self.gangs.values():
            if gang.queue == queue:
                phases[gang.phase] = phases.get(gang.phase, 0) + 1
                members += len(gang.among(*HOLDING))
        return phases, members
