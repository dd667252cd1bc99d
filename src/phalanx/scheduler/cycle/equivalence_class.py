"""Tasks of one shape as one class, and sums over many such tasks."""

from __future__ import annotations

import numpy as np

from phalanx.scheduler.cycle.amounts import CPU, MEMORY, PODS, Amount, Counts, Dimensions, Vector
from phalanx.scheduler.cycle.specs import Shape

UNASKED_CPU = 100
UNASKED_MEMORY = 200 * 1024 * 1024
"""The amounts that kube-scheduler's scores assume for a task that requests no cpu, or no memory."""


class EquivalenceClass:
    """Tasks of one shape. They have the same request, and every filter and scorer gives them the
    same answer.
    """

    __slots__ = (
        "asked", "best_effort", "index", "labels", "request", "shape", "under_quota", "vector",
        "weighed",
    )  # fmt: skip

    def __init__(self, index: int, shape: Shape, dims: Dimensions) -> None:
        self.index = index
        self.shape = shape
        self.labels = dict(shape.labels)
        self.request: Counts = dims.counts(shape.request)
        self.request[PODS] = 1
        self.vector: Vector = self.request.astype(np.float64)
        self.asked = [int(i) for i in np.flatnonzero(self.request)]
        """The indexes of the resources that the class requests, including pod slots."""
        self.under_quota = [(r, float(self.request[r])) for r in self.asked if r != PODS]
        """The requested amounts of the class, as (resource, amount), without pod slots: quotas do
        not limit slots.
        """
        self.best_effort = not bool((self.request[dims.compared] > 0).any())
        self.weighed: Counts = np.array(
            [
                self.request[CPU] or UNASKED_CPU,
                self.request[MEMORY] or UNASKED_MEMORY,
            ],
            dtype=np.int64,
        )

    def amount(self) -> Amount:
        return Amount(self.vector.copy(), self.request > 0)


def column_sums(rows: Counts, ends: Counts) -> Counts:
    """Return sums of successive rows. `ends`: indexes of rows; each sum is over the rows from one
    index to just before the next.
    """
    running = np.zeros((len(rows) + 1, rows.shape[1]), dtype=np.int64)
    np.cumsum(rows, axis=0, out=running[1:])
    return np.asarray(running[ends[1:]] - running[ends[:-1]], dtype=np.int64)


def sums_by_node(at: Counts, loads: Counts, n: int) -> Counts:
    """Return the sum of the loads on each node. The sums are exact, because every amount is below
    2**53.
    """
    columns = [np.bincount(at, weights=column, minlength=n) for column in loads.T]
    return np.asarray(np.column_stack(columns), dtype=np.int64)
