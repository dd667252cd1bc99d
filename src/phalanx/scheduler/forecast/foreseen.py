"""The room that a plan left free over time. As long as no other room becomes free, no podgroup can
get an earlier place.

Most of the cost of promises is the search for earlier places. If a search found nothing, it need
not be repeated until room becomes free that the plan did not foresee: because work ended early, a
promise was withdrawn, or a node is new. This is true only while the possible start times are those
of that search, so the grid keeps its times for a while.
"""

from __future__ import annotations

from collections.abc import Mapping

from phalanx.scheduler.forecast.reading import ClusterSnapshot
from phalanx.scheduler.forecast.timetable import Demand, Timetable


class Foreseen:
    """A plan in which no podgroup that has a place would find an earlier one."""

    def __init__(
        self, snapshot: ClusterSnapshot, table: Timetable, demands: Mapping[str, Demand]
    ) -> None:
        """`demands`: the demands of the planned podgroups."""
        self._columns = snapshot.columns
        self._table = table
        self._demands = demands

    def covers(self, snapshot: ClusterSnapshot, table: Timetable) -> bool:
        """Whether all room that is free in a later table was free at the same time in this plan's
        table.
        """
        return snapshot.columns == self._columns and table.is_within(self._table)

    def had(self, podgroup: str, demand: Demand) -> bool:
        """Whether the podgroup had the same demand in this plan: the amounts, length, nodes and
        quotas. False for a podgroup whose reservation ends it, because times in its demand are
        counted from the plan's time.
        """
        before = self._demands.get(podgroup)
        return (
            before is not None
            and before.length_s == demand.length_s
            and before.quotas == demand.quotas
            and before.until is None
            and demand.until is None
            and _parts(before) == _parts(demand)
        )


def _parts(demand: Demand) -> list[tuple[int, bytes, bytes]]:
    return [(part.count, part.request.tobytes(), part.nodes.tobytes()) for part in demand.parts]
