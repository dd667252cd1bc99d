"""The policy least-waiting: takes the node where a task would wait least."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from phalanx.scheduler.devices.ports import RandomSource
from phalanx.scheduler.placement.node_table import NodeTable
from phalanx.scheduler.placement.outcome import Outcome
from phalanx.scheduler.placement.request_class import ClusterView, Request
from phalanx.scheduler.placement.strategy import Asking, excluded_rows, placed, reject


@dataclass(frozen=True, kw_only=True)
class Backlog:
    """A node's last report: the number of tasks in its queue, and its averages. `run_s`: the mean
    run time of a task in seconds. `bandwidth`: the bytes per second at which objects reach the
    node; 0 before the first object.
    """

    queue_length: int = 0
    run_s: float = 0.0
    bandwidth: float = 0.0


class LeastWaiting:
    """The strategy that minimizes queue length × mean run time + missing bytes of arguments /
    bandwidth.

    The queue of a node that has never reported counts as empty. Among equal nodes, the preferred
    node is taken or, if it is not one of them, the node with the lowest id. The reports are kept as
    arrays in the order of the nodes.
    """

    def __init__(self, default_bandwidth: float = 1e9) -> None:
        """`default_bandwidth`: the bytes per second that are assumed for nodes without a measured
        bandwidth.
        """
        self._default_bandwidth = default_bandwidth
        self._backlogs: dict[str, Backlog] = {}
        self._laid_out: tuple[NodeTable | None, int] = (None, 0)
        self._queue_s = np.zeros(0)
        self._s_per_byte = np.zeros(0)

    def report(self, view: ClusterView, node: str, backlog: Backlog) -> None:
        """Replace a node's report, which comes with a heartbeat."""
        self._backlogs[node] = backlog
        row = view.nodes.row_of.get(node)
        if row is not None and self._is_laid_out(view.nodes):
            self._write(row, backlog)

    def forget(self, node: str) -> None:
        """Drop the report of a node that is gone."""
        self._backlogs.pop(node, None)

    def estimate_s(self, node: str, asking: Asking) -> float:
        """Return the seconds that a task would wait on `node` before it could start."""
        backlog = self._backlogs.get(node, Backlog())
        missing = max(0, asking.argument_bytes - asking.held_bytes.get(node, 0))
        return backlog.queue_length * backlog.run_s + self.transfer_s(node, missing)

    def starts_within(self, node: str, seconds: float) -> int:
        """Return how many more tasks a busy node will probably start within `seconds`, in addition
        to the queued ones; 0 if the node's run times are unknown.
        """
        backlog = self._backlogs.get(node, Backlog())
        return int(seconds / backlog.run_s) - backlog.queue_length if backlog.run_s else 0

    def transfer_s(self, node: str, size: int) -> float:
        """Return the seconds that `size` bytes take to reach `node`."""
        backlog = self._backlogs.get(node)
        bandwidth = backlog.bandwidth if backlog is not None else 0.0
        return size / (bandwidth or self._default_bandwidth)

    def pick(
        self, view: ClusterView, request: Request, asking: Asking, rng: RandomSource
    ) -> Outcome:
        """Return the node with the shortest wait; `rng` is not used."""
        self._catch_up(view)
        known = view.of(request)
        flags = known.available if asking.require_available else known.feasible
        waits = np.where(flags, self._queue_s, np.inf)
        if asking.argument_bytes:
            waits += asking.argument_bytes * self._s_per_byte
            for node in asking.held_bytes:
                row = view.nodes.row_of.get(node)
                if row is not None and flags[row]:
                    waits[row] = self.estimate_s(node, asking)
        waits[excluded_rows(view, asking)] = np.inf
        row = int(waits.argmin()) if waits.size else 0
        if not waits.size or waits[row] == np.inf:
            return reject(view, request, asking)
        preferred = view.nodes.row_of.get(asking.preferred or "", row)
        row = preferred if waits[preferred] == waits[row] else row
        return placed(view, row, bool(known.available[row]))

    def _catch_up(self, view: ClusterView) -> None:
        """Put the reports into the order of the nodes again, after nodes joined or left."""
        if self._is_laid_out(view.nodes):
            return
        self._laid_out = (view.nodes, view.nodes.generation)
        self._queue_s = np.zeros(len(view.nodes))
        self._s_per_byte = np.full(len(view.nodes), 1 / self._default_bandwidth)
        for node, backlog in self._backlogs.items():
            row = view.nodes.row_of.get(node)
            if row is not None:
                self._write(row, backlog)

    def _is_laid_out(self, nodes: NodeTable) -> bool:
        return self._laid_out[0] is nodes and self._laid_out[1] == nodes.generation

    def _write(self, row: int, backlog: Backlog) -> None:
        self._queue_s[row] = backlog.queue_length * backlog.run_s
        self._s_per_byte[row] = 1 / (backlog.bandwidth or self._default_bandwidth)
