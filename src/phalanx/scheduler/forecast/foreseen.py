"""The room that a plan left free over time. If no more than this is free, no earlier place exists.

Most of the cost of promises is the search for earlier places. A search without a result need not be
repeated until something unforeseen becomes free: by work that ended early, a promise that was given
up, or a new node. The possible start times must then be the same as in that search, so the grid
keeps its times for a while.
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
        """`demands` has the demands of the planned podgroups."""
        self._columns = snapshot.columns
        self._table = table
        self._demands = demands

    def covers(self, snapshot: ClusterSnapshot, table: Timetable) -> bool:
        """Whether everything that is free in a later table, at any time, was already free in this
        plan's table.
        """
        return snapshot.columns == self._columns and table.is_within(self._table)

    def had(self, podgroup: str, demand: Demand) -> bool:
        """Whether the podgroup asked for the same amounts and length, on the same nodes and under
        the same quotas.

        False for a podgroup that a reservation ends: that demand's times are indexes that count
        from now.
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
