"""Carries out those parts of a cycle's plan that still fit the latest state.

Members may be lost or end while a plan is carried out. So each gang is checked again before nodes
are asked for its places (`reservations`).
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
from phalanx.model.ids import GangId, GroupId
from phalanx.observe.metrics.meter import Meter
from phalanx.scheduler.cycle.plan import Plan


class PlanEffects(Protocol):
    """The plan's effects outside of the registry and the binder."""

    def evicted(self, gang: Gang, members: list[int], action: str, claimant: str) -> None:
        """Note that an action evicts these members to make room for gang `claimant`; `claimant` is
        empty if the room is for no gang.
        """
        ...

    def placing(self, gang: Gang, nodes: Collection[str]) -> bool:
        """Choose the gang's ports before these nodes are asked for places. Returns False if the
        nodes have too few ports in common.
        """
        ...


class PlanApplier:
    """Applies plans: first the evictions, then the places of each gang. A gang gets all its places
    or none.
    """

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
        """`gang_amended` is called when the scheduler must read a gang's terms again. `failed` is
        called with each error that concerns one gang; the plan's other gangs are handled all the
        same.
        """
        self._failed = failed
        self._meter = meter
        self._registry = registry
        self._reservations = reservations
        self._specs = specs
        self._effects = effects
        self._gang_amended = gang_amended
        self._promised: dict[GroupId, Gang] = {}
        """Gangs that have a promise or had one, by group."""

    def apply(self, plan: Plan) -> None:
        """Carry out a plan."""
        member_of = self._registry.member_of
        victims: dict[GangId, tuple[Gang, list[int]]] = {}
        actions: dict[bytes, str] = {}
        claimants: dict[bytes, str] = {}
        for eviction in plan.evictions:
            gang, index = member_of[eviction.task]
            victims.setdefault(gang.gang_id, (gang, []))[1].append(index)
            # A victim without a claimant makes room for the same gang as the other victims.
            if eviction.claimant or gang.gang_id not in actions:
                actions[gang.gang_id] = eviction.reason
                claimants[gang.gang_id] = eviction.claimant
        choices: dict[GangId, tuple[Gang, dict[int, str]]] = {}
        for task, node in plan.binds.items():
            gang, index = member_of[task]
            choices.setdefault(gang.gang_id, (gang, {}))[1][index] = node
        self._withdraw_promises(plan)
        if victims:
            for task in plan.pipelined:
                self._promise(member_of[task][0])
        for gang, members in victims.values():
            try:
                self.evict(gang, members, actions[gang.gang_id], claimants[gang.gang_id])
            except Exception as error:
                self._failed(gang, error)
        for gang, choice in choices.values():
            try:
                self._place(gang, choice)
            except Exception as error:
                self._failed(gang, error)

    def evict(self, gang: Gang, members: list[int], action: str, claimant: str = "") -> None:
        """Evict members with a warning; afterwards they wait again. Members without a place, and
        members that are already giving theirs back, are skipped. `claimant`: the gang that gets the
        room.
        """
        going = [i for i in members if gang.members[i].state in (PLACING, HELD)]
        if not going:
            return
        self._effects.evicted(gang, going, action, claimant)
        self._meter.add("phalanx_preemptions_total", gang.queue, action)
        self._meter.add("phalanx_evicted_members_total", gang.queue, action, by=len(going))
        gang.preempted += any(gang.members[index].state == HELD for index in going)
        self._reservations.handle(gang, going, Evicted())

    def vacate(self, node_id: str) -> None:
        """Make the members on the node wait again. If a gang is then below its minimum, its members
        on other nodes wait again, too.
        """
        for gang in list(self._registry.gangs.values()):
            here = [i for i, member in enumerate(gang.members) if member.node == node_id]
            if here:
                had_minimum = has_minimum(gang, self._specs)
                self.evict(gang, here, "drain")
                if had_minimum and not has_minimum(gang, self._specs):
                    self.evict(gang, list(range(len(gang.members))), "drain")

    def _promise(self, gang: Gang) -> None:
        """Let the gang go before others until it has its places, because members are being evicted
        for it.
        """
        if not gang.is_promised:
            gang.is_promised = True
            self._promised[gang.gang_id] = gang
            self._gang_amended(gang)

    def gang_known(self, gang: Gang) -> None:
        """Note the promise of a restored gang."""
        if gang.is_promised:
            self._promised[gang.gang_id] = gang

    def _withdraw_promises(self, plan: Plan) -> None:
        """Withdraw the promise of each gang that a cycle considered but did not place.

        Exception: a gang keeps its promise while a gang of higher priority in its queue waits for
        room that is being freed. That gang takes the room that was freed for the promise.
        """
        if not self._promised:
            return
        member_of = self._registry.member_of
        served: set[bytes] = set()
        above: dict[str, int] = {}
        """For each queue: the highest priority of a gang that waits for room that is being freed.
        """
        for task in (*plan.binds, *plan.pipelined):
            gang, _ = member_of[task]
            served.add(gang.gang_id)
            if task in plan.pipelined:
                above[gang.queue] = max(gang.priority, above.get(gang.queue, gang.priority))
        for group, gang in list(self._promised.items()):
            if gang.is_over:  # the next gang of its job has the same name
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
            return  # the gang is over, or has changed, so the next cycle decides again
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
