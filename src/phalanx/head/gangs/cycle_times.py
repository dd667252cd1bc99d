"""What cycles look at and decide, and how long they take, for metrics and people."""

from __future__ import annotations

from collections.abc import Collection

from phalanx.head.clock import Clock
from phalanx.head.gangs.cycle_log import CycleLog
from phalanx.head.gangs.gang import Gang
from phalanx.observe.metrics.meter import Meter
from phalanx.scheduler.cycle.plan import Plan

HOOKS_EVERY_S = 10.0
"""One cycle in this time has each hook of each plugin timed, which makes it slower."""


class CycleTimes:
    """Puts cycles into a meter and a log."""

    def __init__(self, meter: Meter, clock: Clock, log: CycleLog | None) -> None:
        """`log` tells people of cycles; None: nobody asks."""
        self._log = log
        self._read_s = 0.0
        self._meter = meter
        self._clock = clock
        self._hooks_at = float("-inf")

    def now(self) -> float:
        """Seconds, to measure by."""
        return self._clock.now()

    def wants_hooks(self) -> bool:
        """Whether the cycle that begins is one whose hooks are timed."""
        now = self._clock.now()
        is_due = now >= self._hooks_at
        if is_due:
            self._hooks_at = now + HOOKS_EVERY_S
        return is_due

    def read(self, began: float) -> None:
        """What a cycle looks at is up to date, since `began`."""
        self._read_s = self._clock.now() - began
        self._meter.observe("phalanx_snapshot_seconds", self._read_s)

    def decided(self, plan: Plan, waiting: Collection[Gang], began: float) -> None:
        """A cycle over these gangs that waited came to a plan, which is carried out by now."""
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
        """A cycle met an error of ours."""
        self._meter.add("phalanx_schedule_cycles_total", "failed")
