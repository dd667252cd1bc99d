"""Measurements of gang starts for metrics: the time from plan to places, refusals by nodes, and
errors of expected starts.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from phalanx.head.clock import Clock
from phalanx.head.gangs.gang import Gang
from phalanx.head.gangs.member_lifecycle import Arrived, Move, Placed, Refused
from phalanx.head.gangs.member_states import ON_THE_WAY
from phalanx.model.rows.explanation import ExpectedStart
from phalanx.observe.metrics.meter import Meter


class GangStarts:
    """Measures gang starts. Follows the life cycle of members."""

    def __init__(self, meter: Meter, clock: Clock) -> None:
        self._meter = meter
        self._clock = clock
        self._placed: dict[bytes, float] = {}
        """For each gang with members on their way: the time of the plan that placed them, on the
        head's clock.
        """
        self._expected: dict[str, float] = {}
        """For each waiting gang: the expected start that was displayed first, in wall-clock
        time.
        """

    def on_displayed(self, starts: Mapping[str, ExpectedStart], there: Collection[str]) -> None:
        """Note the expected starts that are displayed. `there`: all gangs that have not ended."""
        kept = {uid: at_s for uid, at_s in self._expected.items() if uid in there}
        self._expected = {uid: start.at_s for uid, start in starts.items()} | kept

    def clock_stepped(self, step_s: float) -> None:
        """Shift expected starts after the clock was stepped by this many seconds."""
        self._expected = {uid: at_s + step_s for uid, at_s in self._expected.items()}

    def members_moved(self, gang: Gang, move: Move) -> None:
        """Measure how long an attempt took from plan to places, or count it as refused."""
        if isinstance(move.event, Placed):
            self._placed.setdefault(gang.gang_id, self._clock.now())
            return
        since = self._placed.get(gang.gang_id)
        if since is None or any(member.state in ON_THE_WAY for member in gang.members):
            return
        del self._placed[gang.gang_id]
        if isinstance(move.event, Arrived):
            self._meter.observe("phalanx_gang_start_seconds", self._clock.now() - since)
            expected_s = self._expected.pop(gang.uid, None)
            if expected_s is not None:
                error_s = abs(self._clock.wall() - expected_s)
                self._meter.observe("phalanx_start_estimate_error_seconds", error_s)
        elif isinstance(move.event, Refused):
            self._meter.add("phalanx_plan_rejections_total", "refused")
