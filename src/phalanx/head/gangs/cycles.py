"""Decides when the scheduler runs, and by which rules. Cycles run when something has changed and a
gang waits. Cycles take only a limited share of the head's time.
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterable
from typing import Protocol

import msgspec

from phalanx.head.clock import Clock
from phalanx.head.gangs.cycle_times import CycleTimes
from phalanx.head.gangs.gang import Gang
from phalanx.head.gangs.gang_registry import GangRegistry
from phalanx.head.gangs.member_lifecycle import Move
from phalanx.head.gangs.member_states import GOING, HELD, ON_THE_WAY, PLACELESS, WAITING
from phalanx.head.gangs.minimums import GangSpecs
from phalanx.head.gangs.scheduler_cache import SchedulerCache
from phalanx.scheduler.cycle.config import Configuration, parse_volcano
from phalanx.scheduler.cycle.plan import Plan
from phalanx.scheduler.cycle.registry import known_plugins
from phalanx.scheduler.placement.placement_policy import PlacementPolicy

CONFIGURATION = """\
actions: "allocate, preempt, reclaim, backfill"
tiers:
- plugins:
  - name: priority
  - name: gang
    enablePreemptable: false
    enableReclaimable: false
  - name: fair-tree
    arguments:
      billing: {cpu: 1, nvidia.com/gpu: 16}
  - name: conformance
  - name: capacity
    enableHierarchy: true
    arguments:
      onlyExcess: true
- plugins:
  - name: whole-gang
  - name: licenses
  - name: calendar
  - name: limits
  - name: gpu-sharing
  - name: predicates
  - name: network-topology-aware
    arguments:
      hypernode.binpack.normal-pod.enable: false
  - name: binpack
"""
"""The default rules of a cluster.

Within a priority, users of a queue take turns by their recent usage. Evictions take whole gangs.
Weights determine what queues deserve (`head.queues.deserved`). The plugin capacity is in the same
tier as conformance, because the first tier that names victims decides.
"""
AFTER_DEFECT_S = 1.0
"""Seconds after a failed cycle until the next attempt."""
NEVER = float("inf")
DEFAULT_PLACEMENT = PlacementPolicy()


class Pace(msgspec.Struct, frozen=True, kw_only=True):
    """The shortest time between cycles, and between cycles that may evict.

    A pause is at least `pause_s` seconds, and at least `pause` times as long as the last cycle
    took, because other work runs in the same thread. For cycles that may evict, `eviction_pause_s`
    and `eviction_pause` apply instead.
    """

    pause_s: float = 0.001
    pause: float = 2.0
    eviction_pause_s: float = 0.05
    eviction_pause: float = 10.0
    every_cycle_may_evict: bool = False
    """Whether every cycle may evict gangs, for reasons other than priority and queues."""


class CycleEffects(Protocol):
    """The consequences of cycles that the shell carries out."""

    def apply(self, plan: Plan) -> None:
        """Carry out the plan of a cycle."""
        ...

    def stranded(self, gang: Gang) -> None:
        """Handle a gang of which too few members run while there is no room for the others."""
        ...

    def claim_room(self, now: float) -> float:
        """Ask nodes on which ordinary tasks run to keep room for waiting gangs. Returns the time
        when to ask again if nothing changes.
        """
        ...

    def claim_nothing(self) -> None:
        """Withdraw all claims, because no gang is waiting any more."""
        ...

    def report_defect(self, error: Exception) -> None:
        """Report a failed cycle, which will be tried again."""
        ...


BY_PATHS = """\
  - name: drf
    enableHierarchy: true
    enableJobOrder: false
    enablePreemptable: false
    enableReclaimable: false
"""
"""The plugin that orders queues with paths. With it, deserved amounts also follow the weights of
the paths, so that capacity reclaims resources for these queues. Without capacity, drf would stop
reclaiming one task before the shares are equal.
"""


@functools.cache
def configuration(
    placement: PlacementPolicy = DEFAULT_PLACEMENT, *, has_paths: bool = False
) -> Configuration:
    """Return the default rules. `has_paths`: whether queues have paths (`volcano.sh/hierarchy`)."""
    return parse_volcano(default_text(placement, has_paths=has_paths), known_plugins())


def default_text(placement: PlacementPolicy, *, has_paths: bool = False) -> str:
    """Return the default rules as text in Volcano's format. If the cluster's placement policy is
    the selector, the text names the selector in place of binpack.
    """
    text = CONFIGURATION
    if has_paths:
        text = text.replace("  - name: capacity\n", f"{BY_PATHS}  - name: capacity\n")
    if placement.policy == "selector":
        # this works because JSON is YAML
        settings = msgspec.json.encode(placement.selector).decode()
        chosen = f"- name: selector\n    arguments: {settings}"
        text = text.replace("- name: binpack", chosen)
    return text


class Cycles:
    """Runs the scheduler when a cycle is due. Follows the life cycle of members."""

    def __init__(
        self,
        clock: Clock,
        registry: GangRegistry,
        cache: SchedulerCache,
        specs: GangSpecs,
        effects: CycleEffects,
        pace: Pace,
        times: CycleTimes,
    ) -> None:
        self._clock = clock
        self._registry = registry
        self._cache = cache
        self._specs = specs
        self._effects = effects
        self.pace = pace
        self._times = times
        self._next = NEVER
        self._not_before = self._no_eviction_before = 0.0
        self.changes = 0
        """The number of changes so far that may matter to a waiting gang."""

    # ---- requests for a cycle ----------------------------------------------------------------

    def request_cycle(self, within_s: float = 0.0) -> None:
        """Request that a cycle runs within this many seconds, because something changed."""
        self.changes += 1
        self._next = min(self._next, self._clock.now() + within_s)

    def members_moved(self, gang: Gang, move: Move) -> None:
        """Request a cycle if a member now waits, or if room is free or will be soon."""
        self.changes += 1
        for index in move.indexes:
            state = gang.members[index].state
            if state in PLACELESS or state in GOING:
                self.request_cycle()
                return

    # ---- running -----------------------------------------------------------------------------

    @property
    def wake_at(self) -> float:
        """The time at which `round` is next needed."""
        return max(self._next, self._not_before)

    def round(self, now: float) -> None:
        """Run a cycle if one is due. Call this after all received messages were handled."""
        if now < self.wake_at:
            return
        try:
            self._cycle(now)
        except Exception as error:
            # For example, a plugin has a fault, which must not end running work.
            self._times.failed()
            self._effects.report_defect(error)
            self.request_cycle(AFTER_DEFECT_S)

    def _cycle(self, now: float) -> None:
        self._next = NEVER
        self.show_next()
        waiting = self._registry.looked_at()
        resting = [gang.rests_until for gang in waiting if gang.rests_until > now]
        if resting:
            self._next = min(resting)
        if len(waiting) > len(resting):
            self._run(waiting, now)
        elif not waiting:
            self._effects.claim_nothing()
        took_s = self._clock.now() - now
        self._not_before = now + took_s + max(self.pace.pause_s, self.pace.pause * took_s)

    def show_next(self) -> None:
        """Make the gangs that are next in order visible to the scheduler."""
        for gang in self._registry.window.next(self._registry.looked_at()):
            self._cache.gang_changed(gang)

    def _run(self, waiting: Collection[Gang], now: float) -> None:
        may_evict = self.may_evict(waiting)
        evicts = may_evict and now >= self._no_eviction_before
        plan = self._cache.decide(now, self._clock.wall(), self._times, evicts=evicts)
        self._effects.apply(plan)
        self._times.decided(plan, waiting, now)
        self._next = min(self._next, self._effects.claim_room(now))
        # otherwise there may still be room for these gangs in the next cycle
        if evicts or not may_evict:
            self._look_for_stranded(waiting, plan, now)
        if plan.binds and self._registry.window.is_holding_back:
            self.request_cycle()  # the gangs that cycles did not look at may find room as well
        if evicts:
            done = self._clock.now()
            pace = self.pace
            pause_s = max(pace.eviction_pause_s, pace.eviction_pause * (done - now))
            self._no_eviction_before = done + pause_s
        elif may_evict:
            self._next = min(self._next, self._no_eviction_before)

    def _look_for_stranded(self, waiting: Iterable[Gang], plan: Plan, now: float) -> None:
        active = self._registry.active
        for gang in waiting:
            if gang.gang_id not in active:
                continue  # no member of this gang runs
            held = gang.count(HELD)
            is_moving = any(m.state in ON_THE_WAY or m.state in GOING for m in gang.members)
            if not held or not gang.waits or is_moving or gang.rests_until > now:
                continue
            if any(gang.task(index) in plan.pipelined for index in gang.among(WAITING)):
                continue  # victims are being ended for these members
            if held < self._specs.min_member(gang):
                self._effects.stranded(gang)

    def may_evict(self, waiting: Iterable[Gang]) -> bool:
        """Whether a waiting gang may be entitled to resources that another gang holds."""
        if self.pace.every_cycle_may_evict:
            return True
        active = {queue: min(found) for queue, found in self._registry.priorities.items() if found}
        return any(
            gang.priority > active.get(gang.queue, gang.priority)
            or any(queue != gang.queue for queue in active)
            for gang in waiting
        )
