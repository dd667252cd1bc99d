"""Doing what a cycle decided, as far as it still holds: checked against the latest state.

A plan is made on the scheduler's view. Between two of its steps members may be lost or end, so each
gang is looked at once more before nodes are asked for its places (`reservations`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Protocol

from phalanx.head.gangs.binder import GangBinder
from phalanx.head.gangs.gang import Gang
from phalanx.head.gangs.gang_registry import GangRegistry
from phalanx.head.gangs.member_lifecycle import Evicted
from phalanx.head.gangs.member_states import HELD, PLACING, WAITING
from phalanx.head.gangs.minimums import GangSpecs, has_minimum
from phalanx.observe.metrics.meter import Meter
from phalanx.scheduler.cycle.plan import Plan


class PlanEffects(Protocol):
    """What else follows from a plan."""

    def evicted(self, gang: Gang, members: list[int], action: str, claimant: str) -> None:
        """These members are to go, as an action decided, so that the gang `claimant` gets their
        room; empty where they go for nobody."""
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
        reservations: GangBinder,
        specs: GangSpecs,
        effects: PlanEffects,
        gang_amended: Callable[[Gang], None],
        failed: Callable[[Gang, Exception], None],
        meter: Meter,
    ) -> None:
        """`gang_amended` is called when a gang says something else of itself to the scheduler;
        `failed` when something could not be done with one, which is not the others' matter."""
        self._failed = failed
        self._meter = meter
        self._registry = registry
        self._reservations = reservations
        self._specs = specs
        self._effects = effects
        self._gang_amended = gang_amended
        self._promised: dict[bytes, Gang] = {}
        """Those that have or had a promise, by their group."""

    def apply(self, plan: Plan) -> None:
        """Do what a cycle decided."""
        member_of = self._registry.member_of
        victims: dict[bytes, tuple[Gang, list[int]]] = {}
        actions: dict[bytes, str] = {}
        claimants: dict[bytes, str] = {}
        for eviction in plan.evictions:
            gang, index = member_of[eviction.task]
            victims.setdefault(gang.group, (gang, []))[1].append(index)
            if eviction.claimant or gang.group not in actions:  # who goes with it goes for the same
                actions[gang.group] = eviction.reason
                claimants[gang.group] = eviction.claimant
        choices: dict[bytes, tuple[Gang, dict[int, str]]] = {}
        for task, node in plan.binds.items():
            gang, index = member_of[task]
            choices.setdefault(gang.group, (gang, {}))[1][index] = node
        self._withdraw_promises(plan)
        if victims:
            for task in plan.pipelined:
                self._promise(member_of[task][0])
        for gang, members in victims.values():
            try:
                self.evict(gang, members, actions[gang.group], claimants[gang.group])
            except Exception as error:
                self._failed(gang, error)
        for gang, choice in choices.values():
            try:
                self._place(gang, choice)
            except Exception as error:
                self._failed(gang, error)

    def evict(self, gang: Gang, members: list[int], action: str, claimant: str = "") -> None:
        """Take places away from members, with a warning; they wait again. Who has none any more,
        or gives it back already, is passed over. `claimant`: the gang that gets their room."""
        going = [i for i in members if gang.members[i].state in (PLACING, HELD)]
        if not going:
            return
        self._effects.evicted(gang, going, action, claimant)
        self._meter.add("phalanx_preemptions_total", gang.queue, action)
        self._meter.add("phalanx_evicted_members_total", gang.queue, action, by=len(going))
        gang.preempted += any(gang.members[index].state == HELD for index in going)
        self._reservations.handle(gang, going, Evicted())

    def _promise(self, gang: Gang) -> None:
        """Others are evicted for it: it comes before them until it has its places."""
        if not gang.is_promised:
            gang.is_promised = True
            self._promised[gang.group] = gang
            self._gang_amended(gang)

    def gang_known(self, gang: Gang) -> None:
        """An earlier head had this gang."""
        if gang.is_promised:
            self._promised[gang.group] = gang

    def _withdraw_promises(self, plan: Plan) -> None:
        """Whoever a cycle has looked at and given nothing has no promise any more, once those of
        its queue that come before it have the room: until then they get it by this promise."""
        if not self._promised:
            return
        member_of = self._registry.member_of
        served: set[bytes] = set()
        above: dict[str, int] = {}
        """Of each queue, the highest priority of those that wait for room to be free."""
        for task in (*plan.binds, *plan.pipelined):
            gang, _ = member_of[task]
            served.add(gang.group)
            if task in plan.pipelined:
                above[gang.queue] = max(gang.priority, above.get(gang.queue, gang.priority))
        for group, gang in list(self._promised.items()):
            if gang.is_over:  # its job's next gang has its name
                del self._promised[group]
                continue
            stands = group in served or above.get(gang.queue, gang.priority) > gang.priority
            if gang.is_promised and not stands and gang.uid in plan.phases:
                gang.is_promised = False
                self._gang_amended(gang)
            if not gang.is_promised:
                del self._promised[group]

    def _place(self, gang: Gang, choice: Mapping[int, str]) -> None:
        waiting = all(gang.members[index].state == WAITING for index in choice)
        if gang.is_removed or not waiting:
            self._rejected("changed")
            return  # it is over, or has changed so that the next cycle decides anew
        if not has_minimum(gang, self._specs, len(choice)):
            self._rejected("too_few")
        elif not self._effects.placing(gang, choice.values()):
            self._rejected("ports")
        elif self._reservations.place(gang, choice):
            self._meter.add("phalanx_placements_total", by=len(choice))
            return
        else:
            self._rejected("under_way")
        self._reservations.rest(gang)

    def _rejected(self, reason: str) -> None:
        self._meter.add("phalanx_plan_rejections_total", reason)
