"""Finds the free amounts of each node that no waiting work can use. The result is kept for a while,
because the search is costly.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain

from phalanx.head.clock import Clock
from phalanx.head.gangs.gang import Gang
from phalanx.head.gangs.member_states import WAITING
from phalanx.head.groups.table import GroupTable
from phalanx.head.nodes.directory import NodeDirectory
from phalanx.model.lifecycle import ALIVE
from phalanx.observe.stranded import Free, Shape, smallest, stranded

EVERY_S = 2.0
"""The shortest time between two searches, in seconds."""
PAUSE = 500.0
"""The pause between two searches, as a multiple of the last search's duration. So searches take at
most a five hundredth of the head's time.
"""


class Stranded:
    """Tells how much of each node's free resources is stranded: too little, or too split, for any
    waiting work.
    """

    def __init__(
        self,
        clock: Clock,
        nodes: NodeDirectory,
        groups: GroupTable,
        waiting_gangs: Callable[[], Iterable[Gang]],
    ) -> None:
        self._clock = clock
        self._nodes = nodes
        self._groups = groups
        self._waiting_gangs = waiting_gangs
        self._found: dict[str, dict[str, float]] = {}
        self._due = clock.now()

    def amounts(self) -> dict[str, dict[str, float]]:
        """Return the stranded amounts by node and resource; nodes without stranded amounts are left
        out. The answer may be a few seconds old.
        """
        now = self._clock.now()
        if now >= self._due:
            self._found = dict(self._look())
            self._due = now + max(EVERY_S, PAUSE * (self._clock.now() - now))
        return self._found

    def _look(self) -> Iterator[tuple[str, dict[str, float]]]:
        reports = {
            record.node_id: self._nodes.last_report(record.node_id)
            for record in self._nodes.living()
            if record.state == ALIVE
        }
        of_nodes = (shape for report in reports.values() for shape, _ in report.queued)
        deciding = smallest(chain(of_nodes, self._of_head()))
        for node_id, report in reports.items():
            if found := stranded(Free(report.available, report.devices), deciding):
                yield node_id, found

    def _of_head(self) -> Iterator[Shape]:
        """Yield the requests of bundles and members without a place. Gangs of one kind have equal
        requests, so only one gang of each kind is included.
        """
        for bundle in self._groups.waiting_bundles():
            yield bundle.to_mapping()
        for gang in {gang.kind or gang.gang_id: gang for gang in self._waiting_gangs()}.values():
            yield from (member.need for member in gang.members if member.state == WAITING)
