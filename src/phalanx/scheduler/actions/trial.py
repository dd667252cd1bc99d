"""Tries evictions on several nodes, and makes the least harmful ones.

Source: Volcano's topology-aware preemption, after kube-scheduler's default preemption. On each
tried node, victims leave one by one until the task could run. Then the victims are put back in the
same order, except the victims whose room the task needs. The search stops once it has found enough
nodes (10 % of all nodes, at least 1 and at most 100).

The best node is the one whose first victim has the lowest priority. Among equals, the sum of its
victims' priorities decides (lowest first), then their number (fewest first), then the start of its
most important victims (latest first).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from phalanx.scheduler.cycle import jobs as j
from phalanx.scheduler.cycle.arguments import whole
from phalanx.scheduler.cycle.rows import Ask, Indexes, Rows
from phalanx.scheduler.cycle.session import Session
from phalanx.scheduler.cycle.statement import Statement

_LOWEST = 1 << 31
"""A number that is added to each priority before priorities are summed. No summand is then
negative, so more victims never look better than fewer.
"""


class Trial:
    """Tries evictions on several nodes, and evicts on the best one.

    Arguments: `minCandidateNodesPercentage` (10), `minCandidateNodesAbsolute` (1),
    `maxCandidateNodesAbsolute` (100). Volcano's argument for the number of workers has no effect
    here.
    """

    def __init__(self, session: Session, arguments: Mapping[str, Any]) -> None:
        self._session = session
        self._percent = whole(arguments, "minCandidateNodesPercentage", 10)
        self._least = whole(arguments, "minCandidateNodesAbsolute", 1)
        self._most = whole(arguments, "maxCandidateNodesAbsolute", 100)

    def preempt(
        self, statement: Statement, ask: Ask, nodes: Indexes, allowed: Callable[[int], bool]
    ) -> bool:
        """On the best of these nodes, evict tasks for the task that asks, and record in `statement`
        that this task gets their room. Returns False if evictions help on no node.

        `allowed`: a function that tells whether a task may be evicted.
        """
        for f in self._session.placer.rules()[0]:
            if f.frozen and len(nodes):
                nodes = nodes[f.passes(Rows(self._session.cluster, nodes), ask)]
        count = len(nodes)
        if count == 0 or not self._session.hooks.every("dry_run", ask.job.queue):
            return False
        wanted = min(max(count * self._percent // 100, self._least), self._most, count)
        start = self._session.snapshot.seed % count
        found: list[tuple[int, list[int]]] = []
        for i in range(count):
            node = int(nodes[(start + i) % count])
            victims = self._victims(ask, node, allowed)
            if victims:
                found.append((node, victims))
                if len(found) >= wanted:
                    break
        if not found:
            return False
        node, victims = min(found, key=lambda f: (self._harm(f[1]), f[0]))
        for v in victims:
            statement.evict(v, "preempt")
        statement.pipeline(ask.task, node)
        return True

    def _victims(self, ask: Ask, node: int, allowed: Callable[[int], bool]) -> list[int]:
        """Return the tasks to evict so that the asking task can run on the node, as few as
        possible. The cluster's state is unchanged afterwards.
        """
        session, cluster = self._session, self._session.cluster
        candidates = [v for v in sorted(cluster.on_node[node]) if allowed(v)]
        named = session.hooks.intersect("preemptable", ask.task, candidates)
        room = cluster.future[node].copy()
        for v in named:
            room += cluster.eq_class[v].request
        if not named or not bool((room >= ask.eq_class.request)[ask.eq_class.asked].all()):
            return []
        before = {v: cluster.status[v] for v in named}
        gone: list[int] = []
        for v in session.sort_victims(named, ask.task):
            self._leave(v)
            gone.append(v)
            if self._would_run(ask, node):
                break
        kept: list[int] = []
        if session.placer.passes_now(ask, node):
            for v in gone:
                self._return(v, before[v])
                if not self._would_run(ask, node):
                    self._leave(v)
                    kept.append(v)
        for v in reversed(gone):
            if cluster.status[v] == j.RELEASING:
                self._return(v, before[v])
        return kept

    def _would_run(self, ask: Ask, node: int) -> bool:
        placer = self._session.placer
        fits = placer.fits(ask.task, node) and self._session.allocatable(ask.task)
        return fits and placer.passes_now(ask, node)

    def _leave(self, v: int) -> None:
        cluster = self._session.cluster
        cluster.evict(v)
        self._session.changed(
            self._session.job(v), cluster.eq_class[v], [v], [cluster.node_of[v]], -1
        )

    def _return(self, v: int, status: int) -> None:
        cluster = self._session.cluster
        cluster.unevict(v, status)
        self._session.changed(
            self._session.job(v), cluster.eq_class[v], [v], [cluster.node_of[v]], 1
        )

    def _harm(self, victims: list[int]) -> tuple[int, int, int, float]:
        cluster = self._session.cluster
        tasks = cluster.tasks
        priorities = [tasks[v].priority for v in victims]
        most = max(priorities)
        starts = [cluster.started[v] or 0.0 for v in victims if tasks[v].priority == most]
        total = sum(p + _LOWEST for p in priorities)
        return priorities[0], total, len(victims), -min(starts)
