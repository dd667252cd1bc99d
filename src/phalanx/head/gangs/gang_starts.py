"""How long gangs take from a plan to their places, how often nodes refuse them, and how far that
was from what people were told, for metrics."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from phalanx.head.clock import Clock
from phalanx.head.gangs.gang import Gang
from phalanx.head.gangs.member_lifecycle import Arrived, Move, Placed, Refused
from phalanx.head.gangs.member_states import ON_THE_WAY
from phalanx.model.rows.explanation import ExpectedStart
from phalanx.observe.metrics.meter import Meter


class GangStarts:
    """Follows the life cycle of members."""

    def __init__(self, meter: Meter, clock: Clock) -> None:
        self._meter = meter
        self._clock = clock
        self._placed: dict[bytes, float] = {}
        """When a plan gave places to those of a gang that are on their way."""
        self._told: dict[str, float] = {}
        """When gangs that wait should start, as it was said first, by the clock on the wall."""

    def told(self, starts: Mapping[str, ExpectedStart], there: Collection[str]) -> None:
        """People are told that gangs start then. `there`: all that have not ended."""
        kept = {uid: at_s for uid, at_s in self._told.items() if uid in there}
        self._told = {uid: start.at_s for uid, start in starts.items()} | kept

    def clock_stepped(self, step_s: float) -> None:
        """The time of day was stepped by so much."""
        self._told = {uid: at_s + step_s for uid, at_s in self._told.items()}

    def members_moved(self, gang: Gang, move: Move) -> None:
        """See Follower."""
        if isinstance(move.event, Placed):
            self._placed.setdefault(gang.group, self._clock.now())
            return
        since = self._placed.get(gang.group)
        if since is None or any(member.state in ON_THE_WAY for member in gang.members):
            return
        del self._placed[gang.group]
        if isinstance(move.event, Arrived):
            self._meter.observe("phalanx_gang_start_seconds", self._clock.now() - since)
            told_s = self._told.pop(gang.uid, None)
            if told_s is not None:
                error_s = abs(self._clock.wall() - told_s)
                self._meter.observe("phalanx_start_estimate_error_seconds", error_s)
        elif isinstance(move.event, Refused):
            self._meter.add("phalanx_plan_rejections_total", "refused")
