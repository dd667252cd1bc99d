"""Measurements of cycles for metrics and display: what each cycle considered and decided, and how
long it took.
"""

from __future__ import annotations

from collections.abc import Collection

from phalanx.head.clock import Clock
from phalanx.head.gangs.cycle_log import CycleLog
from phalanx.head.gangs.gang import Gang
from phalanx.observe.metrics.meter import Meter
from phalanx.scheduler.cycle.plan import Plan

HOOKS_EVERY_S = 10.0
"""Seconds between cycles in which each plugin's hooks are timed. The timing slows a cycle down."""


class CycleTimes:
    """Records measurements of cycles in a meter and a log."""

    def __init__(self, meter: Meter, clock: Clock, log: CycleLog | None) -> None:
        """`log` shows cycles to people; None if nobody reads cycles."""
        self._log = log
        self._read_s = 0.0
        self._meter = meter
        self._clock = clock
        self._hooks_at = float("-inf")

    def now(self) -> float:
        """Return the time in seconds, for measuring."""
        return self._clock.now()

    def plan_hook_timing(self) -> bool:
        """Return whether the next cycle should time its hooks. If it should, the next timing is due
        HOOKS_EVERY_S later.
        """
        now = self._clock.now()
        is_due = now >= self._hooks_at
        if is_due:
            self._hooks_at = now + HOOKS_EVERY_S
        return is_due

    def read(self, began: float) -> None:
        """Record how long the reading of the cluster took, from `began` until now."""
        self._read_s = self._clock.now() - began
        self._meter.observe("phalanx_snapshot_seconds", self._read_s)

    def decided(self, plan: Plan, waiting: Collection[Gang], began: float) -> None:
        """Record a cycle over these waiting gangs, once its plan was carried out."""
        took_s = self._clock.now() - began
        if self._log is not None:
            self._log.decided(plan, waiting, took_s=took_s, read_s=self._read_s)
        meter = self._meter
        result = "placed" if plan.binds else "evicted" if plan.evictions else "nothing"
        meter.add("phalanx_schedule_cycles_total", result)
        meter.add("phalanx_gangs_considered_total", by=len(waiting))
        meter.observe("phalanx_schedule_cycle_seconds", took_s)
        for timing in plan.timings:
            if timing.part == "action":
                meter.observe("phalanx_schedule_action_seconds", timing.seconds, timing.name)
            elif timing.part == "hook":
                hook, _, plugin = timing.name.partition(" ")
                meter.observe("phalanx_schedule_plugin_seconds", timing.seconds, plugin, hook)

    def failed(self) -> None:
        """Count a cycle that failed with an internal error."""
        self._meter.add("phalanx_schedule_cycles_total", "failed")
