"""The global choice: of the nodes that satisfy a task, the one where it would wait least."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from phalanx.policies.outcome import Outcome
from phalanx.policies.request_class import ClusterView, Request
from phalanx.policies.strategy import Asking, excluded_rows, placed, reject
from phalanx.resources.ports import RandomSource


@dataclass(frozen=True)
class Average:
    """An exponential average: each sample moves it by `weight` of the distance to the sample.

    The first sample is taken whole.
    """

    value: float = 0.0
    weight: float = 0.2
    has_sample: bool = False

    def with_sample(self, sample: float) -> Average:
        """The average after one more sample. Raises ValueError for a negative or endless one."""
        if not 0 <= sample < float("inf"):
            raise ValueError(f"a sample is a finite number of 0 or more, not {sample}")
        moved = self.value + self.weight * (sample - self.value)
        return Average(moved if self.has_sample else sample, self.weight, True)


@dataclass(frozen=True, kw_only=True)
class Backlog:
    """What one node last reported: tasks in its queue, and its averages.

    `run_s`: mean run time of a task in seconds. `bandwidth`: bytes a second at which objects
    reach it; 0 when none came yet.
    """

    queue_length: int = 0
    run_s: float = 0.0
    bandwidth: float = 0.0


@dataclass(frozen=True, kw_only=True)
class LeastWaiting:
    """Queue length x mean run time + missing argument bytes / bandwidth, the least of it.

    `backlogs`: by node; a node without one has an empty queue. `argument_bytes`: of all
    arguments; `held_bytes`: how many of these each node holds. `default_bandwidth`: where none
    was measured. Ties go to the preferred node, then to the lowest id.
    """

    backlogs: Mapping[str, Backlog] = field(default_factory=dict)
    argument_bytes: int = 0
    held_bytes: Mapping[str, int] = field(default_factory=dict)
    default_bandwidth: float = 1e9

    def estimate_s(self, node: str) -> float:
        """Seconds that a task would wait on `node` before it could start."""
        backlog = self.backlogs.get(node, Backlog())
        missing = max(0, self.argument_bytes - self.held_bytes.get(node, 0))
        bandwidth = backlog.bandwidth or self.default_bandwidth
        return backlog.queue_length * backlog.run_s + missing / bandwidth

    def pick(
        self, view: ClusterView, request: Request, asking: Asking, rng: RandomSource
    ) -> Outcome:
        """The node; `rng` is not used."""
        known = view.of(request)
        flags = known.available if asking.require_available else known.feasible
        rows = np.flatnonzero(flags)
        excluded = excluded_rows(view, asking)
        if excluded:
            rows = rows[~np.isin(rows, excluded)]
        if not rows.size:
            return reject(view, request, asking)
        waits = self._estimates(view)[rows]
        best = rows[waits == waits.min()]
        preferred = view.nodes.row_of.get(asking.preferred or "")
        row = preferred if preferred is not None and preferred in best else int(best[0])
        return placed(view, row, bool(known.available[row]))

    def _estimates(self, view: ClusterView) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        """`estimate_s` of every row; only nodes that reported anything are looked at singly."""
        waits = np.full(len(view.nodes), self.argument_bytes / self.default_bandwidth)
        for node in {**self.backlogs, **self.held_bytes}:
            row = view.nodes.row_of.get(node)
            if row is not None:
                waits[row] = self.estimate_s(node)
        return waits
