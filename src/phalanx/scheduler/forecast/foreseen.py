"""The room that a plan left free over time. As long as no other room becomes free, no podgroup can
get an earlier place.

Most of the cost of promises is the search for earlier places. A search that found nothing need not
be repeated until room becomes free that the plan did not foresee. This happens when work ends
early, a promise is withdrawn, or a node joins. The rule holds only while the times at which work
may start are the same as in that search. Therefore the grid keeps its times for a while.
"""

from __future__ import annotations

from collections.abc import Mapping

from phalanx.scheduler.forecast.reading import ClusterSnapshot
from phalanx.scheduler.forecast.timetable import Demand, Timetable


class Foreseen:
    """A plan in which no podgroup with a place would find an earlier place."""

    def __init__(
        self, snapshot: ClusterSnapshot, table: Timetable, demands: Mapping[str, Demand]
    ) -> None:
        """`demands`: the demands of the planned podgroups."""
        self._columns = snapshot.columns
        self._table = table
        self._demands = demands

    def covers(self, snapshot: ClusterSnapshot, table: Timetable) -> bool:
        """Whether this plan's table foresaw the room of a later table: all room that is free in
        `table` was free here at the same time.
        """
        return snapshot.columns == self._columns and table.is_within(self._table)

    def had(self, podgroup: str, demand: Demand) -> bool:
        """Whether the podgroup had the same demand in this plan: the amounts, length, nodes and
        quotas. It is False for a podgroup that ends with its reservation, because the times in such
        a demand are counted from the time of the plan.
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
