"""What a plan left free over time: as long as no more is, nobody finds an earlier place.

Looking for earlier places is most of what promises cost. A look that finds nothing need not be
done again until something is free that was not foreseen: work that ended early, a promise that was
given up, a node more. Start times, too, must be those of that look; so the grid keeps its times for
a while.
"""

from __future__ import annotations

from collections.abc import Mapping

from phalanx.scheduler.forecast.reading import ClusterSnapshot
from phalanx.scheduler.forecast.timetable import Demand, Timetable


class Foreseen:
    """A plan after which nobody who has a place in it would find an earlier one."""

    def __init__(
        self, snapshot: ClusterSnapshot, table: Timetable, demands: Mapping[str, Demand]
    ) -> None:
        """`demands`: what was planned, by podgroup."""
        self._columns = snapshot.columns
        self._table = table
        self._demands = demands

    def covers(self, snapshot: ClusterSnapshot, table: Timetable) -> bool:
        """Whether in a later table, at any of its times, nothing is free that was not then."""
        return snapshot.columns == self._columns and table.is_within(self._table)

    def had(self, podgroup: str, demand: Demand) -> bool:
        """Whether the podgroup asked for the same, for as long, of the same nodes and quotas. Who
        is ended by a reservation always asks anew, as its times are numbered from now."""
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
