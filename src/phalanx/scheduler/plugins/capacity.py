"""The plugin capacity: queues have hard quotas, and lend deserved amounts until they need them.

Source: Volcano's capacity plugin. The terms are:
- real capability: the total, minus all guarantees, plus the queue's own guarantee, and at most the
  queue's capability;
- deserved: the amount that the queue declares, at least its guarantee and, without hierarchy, at
  most its real capability;
- share: the largest allocated / deserved of all resources, or 1 for a queue that deserves nothing.

A victim must use a resource that the reclaimer requests, and its queue must keep its guarantee. The
victim's queue must also exceed its deserved amount of a resource that the victim uses, or deserve
none of these resources.

With hierarchy, a child whose own capability does not name a resource inherits its parent's. Checks
continue up to the root. Queues are compared at the first level where their paths differ. Victims in
the nearest queues of the tree come first. With `ancestorReclaimLevel` n, the first n ancestors are
also checked, both for victims and for the right to reclaim. `onlyExcess`, which Volcano does not
have, makes reclaim follow `plugin_parts.excess`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from phalanx.scheduler.cycle.accepted import FLAG, FOREIGN, WHOLE, Accepted
from phalanx.scheduler.cycle.accounts import QueueAccount, queue_accounts
from phalanx.scheduler.cycle.amounts import (
    INFINITE,
    Amount,
    Vector,
    above_where_named,
    fits_how_often,
    over_requested,
    shares_resource,
    within_partly,
)
from phalanx.scheduler.cycle.arguments import Arguments, flag, whole
from phalanx.scheduler.cycle.cluster import Cluster
from phalanx.scheduler.cycle.equivalence_class import EquivalenceClass
from phalanx.scheduler.cycle.evictions import EvictionAsk
from phalanx.scheduler.cycle.hooks import PERMIT, REJECT
from phalanx.scheduler.cycle.jobs import Job
from phalanx.scheduler.cycle.plan import Rejection
from phalanx.scheduler.cycle.rows import Change
from phalanx.scheduler.cycle.session import Session
from phalanx.scheduler.plugin_parts.claims import why_nothing_is_taken_back
from phalanx.scheduler.plugin_parts.excess import may_lose, may_take, short_of
from phalanx.scheduler.plugin_parts.quota_tree import ROOT, QuotaNode, QuotaTree
from phalanx.scheduler.plugin_parts.quotas import (
    above,
    admit,
    kept_on_trial,
    real_capabilities,
    set_aside,
)


class Capacity:
    """The plugin capacity. Arguments: `ancestorReclaimLevel` (0), `onlyExcess` (false). With the
    switch `hierarchy`, queues form a tree.
    """

    name = "capacity"
    accepts: ClassVar[Accepted] = {
        "ancestorReclaimLevel": WHOLE,
        "capacity.DynamicResourceAllocationEnable": FOREIGN,
        "capacity.DRAConsumableCapacityEnable": FOREIGN,
        "onlyExcess": FLAG,
    }

    def __init__(self, arguments: Arguments) -> None:
        self._level = max(0, whole(arguments, "ancestorReclaimLevel", 0))
        self._only_excess = flag(arguments, "onlyExcess", False)

    def open(self, session: Session) -> None:
        self._session = session
        self._cluster = session.cluster
        self._hierarchy = session.is_on(self.name, "hierarchy")
        if self._hierarchy:
            self._tree = _tree_of(session.cluster)
        else:
            self._tree = _flat(session.cluster)
        self._nodes = self._tree.nodes
        depth = max((len(n.ancestors) for n in self._nodes.values()), default=0)
        self._level = min(self._level, depth)
        hooks: list[tuple[str, Any]] = [
            ("reclaimable", self._reclaimable),
            ("evictable", self._evictable),
            ("preemptive", self._preemptive),
            ("queue_room", self._room),
            ("shortage", self._shortage),
            ("nothing_taken", self._nothing_taken),
            ("quotas", self._quotas),
            ("job_enqueueable", self._enqueueable),
            ("job_enqueued", self._enqueued),
            ("dry_run", self._dry_run),
            ("changed", self._changed),
        ]
        if self._tree.ready:
            hooks.append(("queue_order", self._compare))
            if self._hierarchy:
                hooks.append(("victim_queue_order", self._compare_victims))
        for hook, fn in hooks:
            session.add(hook, self.name, fn)

    # -- orders ---------------------------------------------------------------------------------

    def _compare(self, left: int, right: int) -> int:
        queues = self._cluster.queues
        if queues[left].priority != queues[right].priority:
            return queues[right].priority - queues[left].priority
        a, b = self._nodes[left], self._nodes[right]
        if self._hierarchy:
            if a.is_leaf() != b.is_leaf():
                return -1 if a.is_leaf() else 1
            if a.is_leaf():
                level = _common_level(a, b) + 1
                a = self._nodes[a.ancestors[level]] if level < len(a.ancestors) else a
                b = self._nodes[b.ancestors[level]] if level < len(b.ancestors) else b
        mine, theirs = a.share(), b.share()
        if mine != theirs:
            return -1 if mine < theirs else 1
        return int(a.deserved.is_empty()) - int(b.deserved.is_empty())

    def _compare_victims(self, left: int, right: int, for_queue: int) -> int:
        mine = self._nodes[for_queue]
        return _common_level(self._nodes[right], mine) - _common_level(self._nodes[left], mine)

    # -- room -----------------------------------------------------------------------------------

    def _chain(self, queue: int) -> list[QuotaNode]:
        node = self._nodes[queue]
        return [node, *(self._nodes[a] for a in reversed(node.ancestors))]

    def _unusable(self, queue: int) -> Rejection | None:
        """Return why no work may start in the queue at all; None if work may start."""
        spec = self._cluster.queues[queue]
        if spec.state != "Open":
            return Rejection(reason="queue-closed", detail={"queue": spec.name})
        if self._hierarchy and not self._nodes[queue].is_leaf():
            return Rejection(reason="queue-not-leaf", detail={"queue": spec.name})
        return None if self._tree.ready else Rejection(reason="queue-tree")

    def _room(self, queue: int, eq_class: EquivalenceClass) -> int:
        if self._unusable(queue) is not None:
            return 0
        return min(
            fits_how_often(n.account.allocated.v, n.real_capability.v, eq_class.under_quota)
            for n in self._chain(queue)
        )

    def _shortage(
        self, queue: int, _: Job, eq_class: EquivalenceClass, count: int
    ) -> list[Rejection]:
        unusable = self._unusable(queue)
        if unusable is not None:
            return [unusable]
        out: list[Rejection] = []
        for n in self._chain(queue):
            used, limit = n.account.allocated.v + eq_class.vector * count, n.real_capability.v
            out += above(
                self._cluster, "queue-quota", n.queue, used, limit, eq_class.vector * count
            )
        return out

    def _nothing_taken(
        self, job: Job, eq_class: EquivalenceClass, count: int, resources: Sequence[str]
    ) -> list[Rejection]:
        if self._unusable(job.queue) is not None:
            return []
        return why_nothing_is_taken_back(
            self._cluster, self._nodes, job, eq_class, count, resources
        )

    def _quotas(self, queue: int) -> list[tuple[str, Vector]]:
        """Return the quotas that limit a queue, each with the amounts that are left of it,
        beginning with the queue's own quota.
        """
        if self._unusable(queue) is not None:
            return [(f"{self.name}/unusable", np.zeros(len(self._cluster.dims)))]
        return [
            (f"{self.name}/{n.queue}", n.real_capability.v - n.account.allocated.v)
            for n in self._chain(queue)
        ]

    def _enqueueable(self, job: Job) -> int:
        unusable = self._unusable(job.queue)
        if unusable is not None:
            self._session.refuse(job, unusable, self.name)
            return REJECT
        may = admit(self._session, job, self._chain(job.queue), self.name)
        return PERMIT if may else REJECT

    def _enqueued(self, job: Job) -> None:
        set_aside(job, self._chain(job.queue))

    def _preemptive(self, queue: int, request: Vector) -> bool:
        if not self._tree.ready or self._cluster.queues[queue].state != "Open":
            return False
        dims, node = self._cluster.dims, self._nodes[queue]
        used = node.account.allocated.v + request
        if over_requested(dims, used, node.real_capability.v, request):
            return False
        if within_partly(dims, used, node.deserved.v, request):
            return True
        if not self._hierarchy:
            return False
        for level in range(1, self._level + 1):
            above = self._ancestor(node, level)
            if above is not None:
                used = above.account.allocated.v + request
                if within_partly(dims, used, above.deserved.v, request):
                    return True
        return False

    def _ancestor(self, node: QuotaNode, level: int) -> QuotaNode | None:
        """Return the ancestor that is `level` steps above `node`; None for the root and beyond."""
        if len(node.ancestors) < level:
            return None
        above = self._nodes[node.ancestors[-level]]
        return None if above.name == ROOT else above

    # -- victims --------------------------------------------------------------------------------

    def _reclaimable(self, reclaimer: int, candidates: Sequence[int]) -> list[int]:
        if not self._tree.ready or not candidates:
            return []
        cluster = self._cluster
        dims = cluster.dims
        request = cluster.eq_class[reclaimer].vector
        mine = self._nodes[self._session.job(reclaimer).queue]
        room = cluster.future[cluster.node_of[candidates[0]]]
        short = short_of(dims, room, cluster.eq_class[reclaimer].request)
        used = mine.account.allocated.v + request
        if self._only_excess and not may_take(dims, used, mine.deserved, request, short):
            return []
        left: dict[int, Amount] = {}

        def held(node: QuotaNode) -> Amount:
            return left.setdefault(node.queue, node.account.allocated.copy())

        out = []
        for t in self._session.sort_victims(candidates, reclaimer):
            if cluster.job_of[t] < 0:
                continue
            load = cluster.eq_class[t].vector
            if not shares_resource(dims, load, request):
                continue
            theirs = self._nodes[self._session.job(t).queue]
            rest = Amount(held(theirs).v - load, held(theirs).has)
            if not theirs.guarantee.less_equal(rest):
                continue
            if not shares_resource(dims, load, theirs.deserved.v, pods=True):
                if self._stays_in_family(mine, theirs, request):
                    continue
            elif not above_where_named(dims, held(theirs), theirs.deserved, load):
                continue
            mine_by_right = held(theirs).v, theirs.deserved, load, short
            if self._only_excess and not may_lose(dims, *mine_by_right):
                continue
            above = self._ancestors_to_ask(mine, theirs)
            if all(self._over(held(a), a, load) for a in above):
                for node in (theirs, *above):
                    held(node).v -= load
                out.append(t)
        return out

    def _over(self, held: Amount, node: QuotaNode, load: Vector) -> bool:
        dims = self._cluster.dims
        none = not shares_resource(dims, load, node.deserved.v, pods=True)
        return none or above_where_named(dims, held, node.deserved, load)

    def _stays_in_family(self, mine: QuotaNode, theirs: QuotaNode, request: Vector) -> bool:
        """Whether nothing can be reclaimed because both queues have a common ancestor among the
        first `ancestorReclaimLevel` ones, and `mine` deserves none of the requested resources.
        """
        if not self._hierarchy or self._level == 0:
            return False
        near = {self._ancestor(mine, n) for n in range(1, self._level + 1)} - {None}
        common = any(self._ancestor(theirs, n) in near for n in range(1, self._level + 1))
        dims = self._cluster.dims
        return common and not shares_resource(dims, request, mine.deserved.v, pods=True)

    def _ancestors_to_ask(self, mine: QuotaNode, theirs: QuotaNode) -> list[QuotaNode]:
        if not self._hierarchy:
            return []
        out = []
        for level in range(1, self._level + 1):
            above = self._ancestor(theirs, level)
            same = len(mine.ancestors) >= level and above is self._nodes[mine.ancestors[-level]]
            if above is not None and not same:
                out.append(above)
        return out

    def _evictable(self, ask: EvictionAsk, candidates: Sequence[int]) -> list[int]:
        if ask.within_queue:
            return list(candidates)
        if not self._tree.ready:
            return []
        left: dict[int, Amount] = {}
        out = []
        for t in candidates:
            node = self._nodes[self._session.job(t).queue]
            held = left.setdefault(node.queue, node.account.allocated.copy())
            load = self._cluster.eq_class[t].vector
            rest = Amount(held.v - load, held.has)
            if node.guarantee.less_equal(rest) and self._over(held, node, load):
                left[node.queue] = rest
                out.append(t)
        return out

    # -- books ----------------------------------------------------------------------------------

    def _dry_run(self, queue: int) -> bool:
        """Whether trial evictions (see `actions.trial`) can make room for work of the queue. The
        queue must be a leaf, and trials must be able to rely on the plugin's state.
        """
        on = self._session.is_on
        if not (on(self.name, "allocatable") or on(self.name, "preemptable")):
            return True
        usable = not self._hierarchy or self._nodes[queue].is_leaf()
        return self._tree.ready and usable and kept_on_trial(self._session, self.name)

    def _changed(self, change: Change) -> None:
        load = change.vector
        for node in self._chain(change.job.queue):
            node.add(load)


def _common_level(a: QuotaNode, b: QuotaNode) -> int:
    """Return the last level, counted from the root, up to which the paths to both queues are the
    same.
    """
    level = 0
    for i, (x, y) in enumerate(zip(a.ancestors, b.ancestors, strict=False)):
        if x != y:
            break
        level = i
    return level


def _flat(cluster: Cluster) -> QuotaTree:
    dims = cluster.dims
    tree = QuotaTree()
    accounts = queue_accounts(cluster)
    for i, (limit, guarantee) in enumerate(real_capabilities(cluster)):
        queue = cluster.queues[i]
        deserved = dims.amount(queue.deserved).cap(limit, missing_is_zero=False)
        tree.nodes[i] = QuotaNode(
            queue=i,
            name=queue.name,
            account=accounts.get(i) or QueueAccount(dims),
            capability=limit,
            deserved=deserved.maximum(guarantee),
            guarantee=guarantee,
        )
    return tree


def _tree_of(cluster: Cluster) -> QuotaTree:
    """Return the tree of all queues, in which the account of a queue counts its own jobs and those
    of all queues below it.
    """
    quotas = cluster.of_queues("quotas", _quotas)
    tree = QuotaTree()
    tree.ready = quotas.ready
    accounts = queue_accounts(cluster)
    for i, node in quotas.nodes.items():
        tree.nodes[i] = node.with_account(accounts.get(i) or QueueAccount(cluster.dims))
    if not all(tree.nodes[i].is_leaf() for i in accounts):
        tree.ready = False
    for i, account in accounts.items() if tree.ready else ():
        for ancestor in tree.nodes[i].ancestors:
            tree.nodes[ancestor].account.add(account)
    return tree


def _quotas(cluster: Cluster) -> QuotaTree:
    """Return the tree of all queues with their quotas. The accounts are empty: no job is
    counted.
    """
    dims = cluster.dims
    tree = QuotaTree()
    for i, queue in enumerate(cluster.queues):
        tree.nodes[i] = QuotaNode(
            queue=i,
            name=queue.name,
            account=QueueAccount(dims),
            capability=dims.amount(queue.capability),
            deserved=dims.amount(queue.deserved),
            guarantee=dims.amount(queue.guarantee),
        )
    root = cluster.queue_index.get(ROOT)
    parents = {i: q.parent for i, q in enumerate(cluster.queues)}
    if root is None or not tree.connect(parents, cluster.queue_index):
        tree.ready = False
        return tree
    top = tree.nodes[root]
    if top.capability.is_empty():
        everything = np.full(len(dims), INFINITE)
        top.capability = Amount(everything, cluster.total.has.copy())
    top.real_capability = top.capability
    tree.descend(top)
    return tree
