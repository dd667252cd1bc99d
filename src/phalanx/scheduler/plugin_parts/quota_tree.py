"""Quotas of queues as a tree. A child inherits quotas, and its parent limits what it can get.

Source: Volcano's capacity plugin with hierarchy.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from phalanx.scheduler.cycle.accounts import QueueAccount
from phalanx.scheduler.cycle.amounts import PODS, Amount
from phalanx.scheduler.plugin_parts.quotas import Holding

ROOT = "root"
DEEPEST = 100
"""The largest number of queues above a queue. Volcano allows five."""


class QuotaNode(Holding):
    """One queue's quotas and account. `ancestors`: the indexes of the queues above it, root
    first.
    """

    def __init__(
        self,
        *,
        queue: int,
        name: str,
        account: QueueAccount,
        capability: Amount,
        deserved: Amount,
        guarantee: Amount,
    ) -> None:
        super().__init__(
            queue=queue,
            account=account,
            real_capability=capability,
            deserved=deserved,
            guarantee=guarantee,
        )
        self.name = name
        self.capability = capability
        self.ancestors: list[int] = []
        self.children: list[int] = []

    def with_account(self, account: QueueAccount) -> QuotaNode:
        """Return the same queue with another account. Both share the quotas, so callers must not
        change these.
        """
        twin = QuotaNode(
            queue=self.queue,
            name=self.name,
            account=account,
            capability=self.capability,
            deserved=self.deserved,
            guarantee=self.guarantee,
        )
        twin.real_capability = self.real_capability
        twin.ancestors, twin.children = self.ancestors, self.children
        return twin

    def is_leaf(self) -> bool:
        return not self.children

    def share(self) -> float:
        """Return the queue's share. A queue that deserves nothing has the share 1, whatever it
        holds.
        """
        return 1.0 if self.deserved.is_empty() else super().share()


class QuotaTree:
    """All queues by index. If the tree is broken, `ready` is False and no job is let in."""

    def __init__(self) -> None:
        self.nodes: dict[int, QuotaNode] = {}
        self.ready = True

    def connect(self, parents: Mapping[int, str], index: Mapping[str, int]) -> bool:
        """Set the ancestors and children of all queues. Returns False if a parent is missing, if
        queues form a cycle, or if the tree is too deep.
        """
        for queue, node in self.nodes.items():
            path: list[int] = []
            at = queue
            while self.nodes[at].name != ROOT:
                up = index.get(parents[at] or ROOT)
                if up is None or up in path or up == queue or len(path) >= DEEPEST:
                    return False
                path.append(up)
                at = up
            node.ancestors = path[::-1]
            if path:
                self.nodes[path[0]].children.append(queue)
        return True

    def descend(self, top: QuotaNode) -> None:
        """Compute the capabilities of the queues below `top`, from parent to child. If a child's
        capability does not name a resource, the child inherits its parent's amount of that
        resource. The real capability of a child excludes the guarantees of its siblings, and is at
        most its capability.
        """
        children = [self.nodes[c] for c in top.children]
        guaranteed = deserved = None
        for child in children:
            child.deserved = child.deserved.maximum(child.guarantee)
            guaranteed = _sum(guaranteed, child.guarantee)
            deserved = _sum(deserved, child.deserved)
            unset = child.capability.v <= 0
            unset[PODS:] = ~child.capability.has[PODS:] & top.capability.has[PODS:]
            child.capability.v = np.where(unset, top.capability.v, child.capability.v)
            child.capability.has |= top.capability.has
        if guaranteed is None or deserved is None:
            return
        if top.name == ROOT:
            top.guarantee, top.deserved = guaranteed, deserved
        for child in children:
            limit = top.real_capability.excess_over(guaranteed).add(child.guarantee)
            child.real_capability = limit.cap(child.capability, missing_is_zero=False)
            self.descend(child)


def _sum(so_far: Amount | None, more: Amount) -> Amount:
    return more.copy() if so_far is None else so_far.add(more)
