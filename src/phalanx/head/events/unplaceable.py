"""Notes an event for each request that no node of the cluster could ever run, once per request."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping

import numpy as np

from phalanx.head.events.event_log import EventLog
from phalanx.model.rows.explanation import amounts_text
from phalanx.scheduler.devices.quantities import from_units
from phalanx.scheduler.devices.sets import ResourceSet
from phalanx.scheduler.placement.cluster_nodes import ClusterNodes

_KNOWN = 1_000
"""The number of sets of amounts that are remembered. A request is noted again if its amounts were
forgotten.
"""

Amounts = Mapping[str, float]


class Unplaceable:
    """Notes the amounts that ordinary tasks and actors request and that no node has.

    Jobs and gangs are not included: they have their own reasons, and are refused if they can never
    run.
    """

    def __init__(self, event_log: EventLog, cluster: ClusterNodes) -> None:
        self._event_log = event_log
        self._cluster = cluster
        self._judged: OrderedDict[ResourceSet, tuple[int, bool]] = OrderedDict()
        """For each set of amounts, in the order in which they were last checked: the number of the
        cluster's shape at that time (`ClusterNodes.shape`), and whether no node had the amounts.
        """

    def judge(self, waiting: Iterable[Amounts]) -> None:
        """Note the waiting amounts that no node could hold. Amounts that were noted already are
        skipped.
        """
        for amounts in waiting:
            asked = ResourceSet.from_mapping(amounts)
            shape, was_noted = self._judged.get(asked, (-1, False))
            if shape == self._cluster.shape:
                continue
            why = self._why(asked)
            if why and not was_noted:
                self._event_log.note("infeasible", name=amounts_text(asked.to_mapping()), why=why)
            self._judged[asked] = (self._cluster.shape, bool(why))
            self._judged.move_to_end(asked)
            if len(self._judged) > _KNOWN:
                self._judged.popitem(last=False)

    def _why(self, asked: ResourceSet) -> str:
        """Return why no node has these amounts; empty if some node has them, or if no node is known
        yet.
        """
        nodes = self._cluster.view.nodes
        has = {name: nodes.column(nodes.total, name) for name in asked}
        fits = np.ones(len(nodes), np.bool_)
        for name, units in asked.items():
            fits &= has[name] >= units
        if fits.any() or not len(nodes):
            return ""
        largest = {name: int(has[name].max()) for name in asked}
        lacking = [name for name in asked if asked[name] > largest[name]]
        if not lacking:
            return "no single node has that together"
        most = amounts_text({name: from_units(largest[name]) for name in lacking})
        return f"the largest node has {most}"
