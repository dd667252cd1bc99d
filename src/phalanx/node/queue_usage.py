"""Computes which share of a node the ordinary tasks of each queue hold, relative to the queue's
weight.
"""

from __future__ import annotations

from collections.abc import Mapping

from phalanx.scheduler.devices.sets import EMPTY, ResourceSet


class QueueShares:
    """The share of a node that each queue holds.

    A queue whose weight is not known, such as "", has the weight 1.
    """

    def __init__(self) -> None:
        self.weights: Mapping[str, float] = {}
        self._held: dict[str, ResourceSet] = {}

    def is_known(self, queue: str) -> bool:
        """Whether this node knows a queue of this name, or knows no queues at all."""
        return not queue or not self.weights or queue in self.weights

    def take(self, queue: str, request: ResourceSet) -> None:
        """Count a lease of the queue, which begins."""
        self._held[queue] = self._held.get(queue, EMPTY) + request

    def give_back(self, queue: str, request: ResourceSet) -> None:
        """Stop counting a lease of the queue, which ends."""
        left = self._held.get(queue, EMPTY) - request
        if left:
            self._held[queue] = left
        else:
            self._held.pop(queue, None)

    def of(self, queue: str, total: Mapping[str, int]) -> float:
        """Return the largest share that the queue holds of any resource, divided by the queue's
        weight.
        """
        return self._share(queue, self._held.get(queue, EMPTY), total)

    def may_take(
        self,
        queue: str,
        request: ResourceSet,
        other: str,
        gives: ResourceSet,
        total: Mapping[str, int],
    ) -> bool:
        """Whether the queue `other` must return a lease with the amounts `gives` for a `request` of
        `queue`.

        It must if `queue` holds nothing. Otherwise, the shares are compared, divided by the weights
        as in `of`: it must if its share without the lease is still not below the share of `queue`
        with the request.
        """
        mine, theirs = self._held.get(queue, EMPTY), self._held.get(other, EMPTY)
        if not mine:
            return True
        after = self._share(other, theirs - gives, total)
        return after >= self._share(queue, mine + request, total)

    def _share(self, queue: str, held: ResourceSet, total: Mapping[str, int]) -> float:
        parts = (units / total[name] for name, units in held.items() if total.get(name))
        return max(parts, default=0.0) / max(self.weights.get(queue, 1.0), 1e-9)
