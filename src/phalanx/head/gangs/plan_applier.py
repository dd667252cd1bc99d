"""Doing what a cycle decided, as far as it still holds: checked against the latest state.

A plan is made on the scheduler's view. Between two of its steps members may be lost or end, so each
gang is looked at once more before nodes are asked for its places (`reservations`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Protocol

from phalanx.batch.plan import Plan
from phalanx.head.gangs.gang import Gang
from phalanx.head.gangs.gang_registry import GangRegistry
from phalanx.head.gangs.member_lifecycle import Evicted
from phalanx.head.gangs.member_states import HELD, PLACING, WAITING
from phalanx.head.gangs.minimums import GangSpecs, has_minimum
from phalanx.head.gangs.reservations import GangReservations


class PlanEffects(Protocol):
    """What else follows from a plan."""

    def evicted(self, gang: Gang, members: list[int], action: str) -> None:
        """These members are to go, as an action decided."""
        ...

    def placing(self, gang: Gang, nodes: Collection[str]) -> bool:
        """These nodes are about to be asked for places of the gang, which needs its ports by then.
        False when there are too few that the nodes have in common."""
        ...


class PlanApplier:
    """Applies plans: evictions first, then the places of each gang, all of them or none."""

    def __init__(
        self,
        registry: GangRegistry,
        reservations: GangReservations,
        specs: GangSpecs,
        effects: PlanEffects,
        gang_amended: Callable[[Gang], None],
        failed: Callable[[Gang, Exception], None],
    ) -> None:
        """`gang_amended` is called when a gang says something else of itself to the scheduler;
        `failed` when something could not be done with one, which is not the others' matter."""
        self._failed = failed
        self._registry = registry
        self._reservations = reservations
        self._specs = specs
        self._effects = effects
        self._gang_amended = gang_amended

    def apply(self, plan: Plan) -> None:
        """Do what a cycle decided."""
        member_of = self._registry.member_of
        victims: dict[bytes, tuple[Gang, list[int]]] = {}
        actions: dict[bytes, str] = {}
        for eviction in plan.evictions:
            gang, index = member_of[eviction.task]
            victims.setdefault(gang.group, (gang, []))[1].append(index)
            actions[gang.group] = eviction.reason
        choices: dict[bytes, tuple[Gang, dict[int, str]]] = {}
        for task, node in plan.binds.items():
            gang, index = member_of[task]
            choices.setdefault(gang.group, (gang, {}))[1][index] = node
        if victims:
            for task in plan.pipelined:
                self._promise(member_of[task][0])
        for gang, members in victims.values():
            try:
                self.evict(gang, members, actions[gang.group])
            except Exception as error:
                self._failed(gang, error)
        for gang, choice in choices.values():
            try:
                self._place(gang, choice)
            except Exception as error:
                self._failed(gang, error)

    def evict(self, gang: Gang, members: list[int], action: str) -> None:
        """Take places away from members, with a warning; they wait again. Who has none any more,
        or gives it back already, is passed over."""
        going = [i for i in members if gang.members[i].state in (PLACING, HELD)]
        if not going:
            return
        self._effects.evicted(gang, going, action)
        gang.preempted += any(gang.members[index].state == HELD for index in going)
        self._reservations.handle(gang, going, Evicted())

    def _promise(self, gang: Gang) -> None:
        """Others are evicted for it: it comes before them until it has its places."""
        if not gang.is_promised:
            gang.is_promised = True
            self._gang_amended(gang)

    def _place(self, gang: Gang, choice: Mapping[int, str]) -> None:
        waiting = all(gang.members[index].state == WAITING for index in choice)
        if gang.is_removed or not waiting:
            return  # it is over, or has changed so that the next cycle decides anew
        if has_minimum(gang, self._specs, len(choice)):
            has_ports = self._effects.placing(gang, choice.values())
            if has_ports and self._reservations.place(gang, choice):
                return
        self._reservations.rest(gang)
