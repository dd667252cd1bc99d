"""The plugin rescheduling: moves tasks away from busy nodes while other nodes are idle.

Source: Volcano's rescheduling plugin, strategy lowNodeUtilization. A node is idle if all its
measurements are below `thresholds`, and busy if any is above `targetThresholds`. Preemptable tasks
on busy nodes are victims, the least important first, until the node is at its target or idle nodes
have no more room.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from phalanx.scheduler.cycle import jobs as j
from phalanx.scheduler.cycle.accepted import DURATION, FOREIGN, NUMBER, Accepted, one_of
from phalanx.scheduler.cycle.amounts import CPU, MEMORY
from phalanx.scheduler.cycle.arguments import Arguments, number, seconds
from phalanx.scheduler.cycle.cluster import Cluster
from phalanx.scheduler.cycle.session import Session

_OF = (("cpu", CPU), ("memory", MEMORY))


class Rescheduling:
    """The plugin rescheduling. Arguments: `strategies: [{name: lowNodeUtilization, params:
    {thresholds: {cpu: 20, memory: 20}, targetThresholds: {cpu: 80, memory: 80}}}]`; `interval`
    (5m), the time between two rounds of victims.
    """

    name = "rescheduling"
    accepts: ClassVar[Accepted] = {
        "interval": DURATION,
        "metricsPeriod": FOREIGN,
        "strategies": {
            "[]": {
                "name": one_of("lowNodeUtilization"),
                "params": {
                    "thresholds": {"cpu": NUMBER, "memory": NUMBER, "*": FOREIGN},
                    "targetThresholds": {"cpu": NUMBER, "memory": NUMBER, "*": FOREIGN},
                },
            }
        },
    }

    def __init__(self, arguments: Arguments) -> None:
        params: Mapping[str, Any] = {}
        for entry in arguments.get("strategies") or ():
            if isinstance(entry, dict) and entry.get("name") == "lowNodeUtilization":
                found = entry.get("params")
                params = found if isinstance(found, dict) else {}
        self._interval_s = seconds(arguments.get("interval")) or 300.0
        self._low = _limits(params.get("thresholds"), 20.0)
        self._high = _limits(params.get("targetThresholds"), 80.0)

    def open(self, session: Session) -> None:
        session.add("victims", self.name, lambda: self._victims(session))

    def _victims(self, session: Session) -> list[int]:
        if not session.start_if_due(self.name, self._interval_s):
            return []
        cluster = session.cluster
        used = _fractions(cluster)
        idle = np.flatnonzero((used < self._low).all(axis=1))
        busy = np.flatnonzero((used > self._high).any(axis=1))
        if len(idle) == 0 or len(idle) == len(used):
            return []
        columns = [r for _, r in _OF]
        capacity = cluster.capacity[:, columns].astype(np.float64)
        room = ((self._high - used[idle]) / 100 * capacity[idle]).sum(axis=0)
        out = []
        for node in sorted(busy.tolist(), key=lambda n: -float(used[n].sum())):
            over = (used[node] - self._high) / 100 * capacity[node]
            running = [
                t
                for t in cluster.on_node[node]
                if cluster.status[t] == j.RUNNING and cluster.tasks[t].preemptable
            ]
            for t in sorted(running, key=lambda t: (cluster.tasks[t].priority, t)):
                load = cluster.eq_class[t].vector[columns]
                if not (over > 0).any() or bool((load > room).any()):
                    break
                over, room = over - load, room - load
                out.append(t)
        return out


def _limits(given: Any, default: float) -> Any:
    named = given if isinstance(given, dict) else {}
    return np.array([number(named, name, default) for name, _ in _OF])


def _fractions(cluster: Cluster) -> Any:
    """Return the percentage of each node's resources that is in use: the measured one or, without a
    measurement, the one that the tasks there have requested.
    """
    rows = []
    for i, node in enumerate(cluster.nodes):
        measured = dict(node.usage)
        row = []
        for name, r in _OF:
            whole = max(int(cluster.capacity[i, r]), 1)
            row.append(measured.get(name, 100.0 * float(cluster.used[i, r]) / whole))
        rows.append(row)
    return np.array(rows) if rows else np.zeros((0, len(_OF)))
