"""The cluster's nodes as placement reads them: the head's own records, and copies of them on the
nodes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Protocol

from phalanx.model.lifecycle import ALIVE, DEAD
from phalanx.scheduler.devices.cards import Cards
from phalanx.scheduler.devices.sets import EMPTY, ResourceSet
from phalanx.scheduler.placement.node_table import NodeState, NodeTable
from phalanx.scheduler.placement.outcome import Outcome, Placed
from phalanx.scheduler.placement.request_class import ClusterView, Request
from phalanx.scheduler.placement.seeded import Seeded
from phalanx.scheduler.placement.strategy import NOBODY, Asking
from phalanx.scheduler.placement.waiting_time import Backlog, LeastWaiting


class NodeRow(Protocol):
    """One node as it was reported, with amounts by resource. `devices`: the units left on each
    device.
    """

    @property
    def node_id(self) -> str: ...
    @property
    def state(self) -> str: ...
    @property
    def total(self) -> Mapping[str, float]: ...
    @property
    def available(self) -> Mapping[str, float]: ...
    @property
    def labels(self) -> Mapping[str, str]: ...
    @property
    def devices(self) -> Mapping[str, Sequence[int]]: ...
    @property
    def cards(self) -> Cards: ...
    @property
    def queue_length(self) -> int: ...
    @property
    def run_s(self) -> float: ...
    @property
    def bandwidth(self) -> float: ...
    @property
    def last_lease(self) -> int: ...


class ClusterNodes:
    """The nodes, for strategies and for estimates of waits. Rows are changed in place and never
    rebuilt. A copy lags behind, so a decision on a copy is only a hint that the chosen node must
    confirm.
    """

    def __init__(self) -> None:
        self.view = ClusterView(NodeTable())
        self.waiting = LeastWaiting()
        self.shape = 0
        """The number of changes of nodes, totals or labels so far. Such a change may make work
        feasible.
        """
        self._backlogs: dict[str, Backlog] = {}
        self._rows: dict[str, NodeRow] = {}
        self._counted: set[str] = set()
        self._rng = Seeded(0)  # the caller requires one, but least-waiting draws no number

    def put(self, row: NodeRow, load: ResourceSet = EMPTY) -> bool:
        """Replace a node's row, or forget the node if it is dead. Returns whether the node's
        resources changed. `load`: the amounts that are queued there. Raises ValueError for invalid
        amounts.
        """
        if row.state == DEAD:
            return self.remove(row.node_id)
        known = self._rows.get(row.node_id)
        nodes = self.view.nodes
        before = None if known is None else nodes.states[nodes.row_of[row.node_id]]
        is_as_large = known is not None and _extent(known) == _extent(row)
        state = NodeState(
            id=row.node_id,
            total=before.total if before and is_as_large else _whole(row),
            available=ResourceSet.from_mapping(row.available),
            load=load,
            labels=row.labels,
            is_schedulable=row.state == ALIVE,
            devices={name: tuple(left) for name, left in row.devices.items()},
            cards=row.cards,
        )
        is_news = before != state
        if is_news:
            if before is None or _shape(before) != _shape(state):
                self.shape += 1
            nodes.put(state)
        backlog = Backlog(queue_length=row.queue_length, run_s=row.run_s, bandwidth=row.bandwidth)
        self._report(row.node_id, backlog)
        self._rows[row.node_id] = row
        self._counted.discard(row.node_id)
        return is_news

    def count_in(self, node_id: str, request: ResourceSet, is_available: bool) -> None:
        """Count a request that was just sent to a node, until the node's next report includes it.

        With `is_available` the request counts as running there, and otherwise as waiting there.
        Without this count, a series of choices would pick the same node each time.
        """
        self._counted.add(node_id)
        if is_available:
            self.view.nodes.take(node_id, request)
            return
        backlog = self._backlogs[node_id]
        self._report(node_id, replace(backlog, queue_length=backlog.queue_length + 1))

    def count_no_more(self, node_id: str) -> None:
        """Forget all requests that were counted since the node's last row. Call this once some of
        them have ended: the node sends no new row if its state equals its last row.
        """
        if node_id in self._counted:
            self.put(self._rows[node_id])

    def last_lease(self, node_id: str) -> int:
        """Return the number of the last lease that a node's row takes into account; 0 for an
        unknown node.
        """
        row = self._rows.get(node_id)
        return 0 if row is None else row.last_lease

    def is_counted(self, node_id: str) -> bool:
        """Whether any request was counted since the node's last row."""
        return node_id in self._counted

    def remove(self, node_id: str) -> bool:
        """Forget a node. Returns whether it was known."""
        if node_id not in self.view.nodes.row_of:
            return False
        self.view.nodes.remove(node_id)
        self.waiting.forget(node_id)
        del self._backlogs[node_id], self._rows[node_id]
        self._counted.discard(node_id)
        self.shape += 1
        return True

    def pick_least_wait(self, request: Request, asking: Asking = NOBODY) -> Outcome:
        """Return the node where a request would wait least, or how many nodes each filter turned
        away. The wait is estimated as queue length × mean run time + missing bytes ÷ bandwidth, as
        by the global scheduler in Moritz et al., "Ray: A Distributed Framework for Emerging AI
        Applications", OSDI 2018, section 4.2.2. Among nodes with the same wait, a node with room
        now is preferred.
        """
        best = self.waiting.pick(self.view, request, asking, self._rng)
        if not isinstance(best, Placed) or best.is_available:
            return best
        only_free = replace(asking, require_available=True)
        free = self.waiting.pick(self.view, request, only_free, self._rng)
        if not isinstance(free, Placed):
            return best
        wait_s = self.waiting.estimate_s
        return free if wait_s(free.node, asking) <= wait_s(best.node, asking) else best

    def _report(self, node_id: str, backlog: Backlog) -> None:
        self._backlogs[node_id] = backlog
        self.waiting.report(self.view, node_id, backlog)


def _extent(row: NodeRow) -> object:
    return row.total, {name: len(left) for name, left in row.devices.items()}


def _whole(row: NodeRow) -> ResourceSet:
    """Return the node's totals. They include closed devices, because these may be opened again
    before the request runs.
    """
    counts = {name: float(len(left)) for name, left in row.devices.items()}
    total = dict(row.total)
    for name, count in counts.items():
        total[name] = max(total.get(name, 0.0), count)
    return ResourceSet.from_mapping(total)


def _shape(node: NodeState) -> object:
    return node.total, node.labels, node.is_schedulable
