"""Finds jobs that hold GPUs but leave them idle, by the rule of their queue. The job's owner is
warned and, if the rule says so, the job is ended. This module is pure.

A job counts as idle only for a period in which samples cover all its GPUs. The period starts again
if a GPU was not read for a while, or if the job has other GPUs after a restart.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import msgspec

from phalanx.head.events.event_log import EventLog
from phalanx.head.gangs.gang import Gang
from phalanx.head.gangs.member_states import HELD
from phalanx.manifests.idle_rules import IdleRule
from phalanx.model.ids import JobId
from phalanx.model.readable import length_text

LOOK_EVERY_S = 5.0
COVERED_S = 30.0
"""The largest age, in seconds, of a sample that still says whether its device is busy."""


class Holding(NamedTuple):
    """A running job, and its GPUs as (node, number)."""

    job: JobId
    """The job, as NAMESPACE/NAME."""
    queue: str
    devices: tuple[tuple[str, int], ...]


def holdings(gangs: Iterable[Gang]) -> Iterator[Holding]:
    """Yield a Holding for each of these gangs that is a job and has GPUs."""
    for gang in gangs:
        devices = tuple(
            (member.node, number)
            for member in gang.members
            if member.state == HELD
            for number in member.devices.get("GPU", ())
        )
        if gang.job and devices:
            yield Holding(gang.job, gang.queue, devices)


class Idle(msgspec.Struct, eq=False):
    """A job whose GPUs have been idle since `since`, on the head's clock."""

    holding: Holding
    since: float
    is_told: bool = False


class IdleGpus:
    """All jobs with idle GPUs."""

    def __init__(
        self,
        holding: Callable[[], Iterable[Holding]],
        rule_of: Callable[[str], IdleRule | None],
        busy: Callable[[str, int, float], float | None],
        event_log: EventLog,
        end: Callable[[JobId, str], None],
    ) -> None:
        """`rule_of` returns the rule of a queue. `busy` returns the fraction of time for which a
        device of a node was busy, or None if the device's last sample is older than the given
        number of seconds. `end` ends a job, with a reason.
        """
        self._holding = holding
        self._rule_of = rule_of
        self._busy = busy
        self._event_log = event_log
        self._end = end
        self._idle: dict[str, Idle] = {}
        self._look_at = 0.0

    def tick(self, now: float) -> None:
        """Look for idle GPUs, and warn about or end the jobs that hold them."""
        if now < self._look_at:
            return
        self._look_at = now + LOOK_EVERY_S
        before, self._idle = self._idle, {}
        for holding in self._holding():
            rule = self._rule_of(holding.queue)
            if rule is None or not self._is_idle(holding, rule):
                continue
            known = before.get(holding.job)
            if known is None or known.holding.devices != holding.devices:
                known = Idle(holding, now)
            self._idle[holding.job] = known
            if not known.is_told and now - known.since >= rule.window_s:
                known.is_told = True
                self._tell(holding, rule)

    def _is_idle(self, holding: Holding, rule: IdleRule) -> bool:
        seen = [self._busy(node, number, COVERED_S) for node, number in holding.devices]
        return bool(seen) and all(one is not None and one < rule.below for one in seen)

    def _tell(self, holding: Holding, rule: IdleRule) -> None:
        count = len(holding.devices)
        gpus = "its GPU was" if count == 1 else f"its {count} GPUs were"
        why = f"{gpus} less than {100 * rule.below:g}% busy for {length_text(rule.window_s)}"
        self._event_log.note("job-idle", job=holding.job, queue=holding.queue, why=why)
        if rule.ends:
            self._end(holding.job, f"{why}, after which queue {holding.queue} ends jobs")
