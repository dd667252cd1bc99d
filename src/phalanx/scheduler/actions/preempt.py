"""The action preempt: makes room for starving jobs by evicting less important tasks of the same
queue.

Source: Volcano's preempt action. Queues take their turns in order. In each queue, jobs first get
room from other jobs, then from their own tasks. The nodes with the best scores are tried first, and
on each node the victims that would be placed last are evicted first. After each eviction the
queue's room, the node's room and the filters are checked again. The moves for a job are kept only
if the job is then pipelined. Jobs with a network bound, entitled jobs (`reclaim` makes room for
them) and tasks with the policy Never are skipped. With `enableTopologyAwarePreemption` evictions on
several nodes are tried first (see `trial`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np

from phalanx.scheduler.actions.trial import Trial
from phalanx.scheduler.actions.worksheet import needed_first
from phalanx.scheduler.cycle import jobs as j
from phalanx.scheduler.cycle.amounts import Flags
from phalanx.scheduler.cycle.arguments import flag
from phalanx.scheduler.cycle.cluster import Cluster
from phalanx.scheduler.cycle.equivalence_class import EquivalenceClass
from phalanx.scheduler.cycle.jobs import Job
from phalanx.scheduler.cycle.ordering import Heap, QueueHeap
from phalanx.scheduler.cycle.session import Session
from phalanx.scheduler.cycle.statement import Statement

Allowed = Callable[[int], bool]


def run(session: Session) -> None:
    queues = QueueHeap(session.compare_queues)
    starving: dict[int, list[Job]] = {}
    for job in session.cluster.jobs:
        if job.is_pending() or not session.job_valid(job):
            continue
        if session.job_starving(job) and not job.has_topology() and not session.entitled(job):
            if job.queue not in starving:
                queues.push(job.queue)
            starving.setdefault(job.queue, []).append(job)
    preemption = _Preemption(session)
    while len(queues):
        jobs = starving[queues.pop()]
        heap = Heap(session.job_key)
        for job in jobs:
            heap.push(job)
        preemption.between_jobs(heap)
        for job in jobs:
            preemption.within_job(job)


class _Preemption:
    """One run of the action."""

    def __init__(self, session: Session) -> None:
        self._session = session
        arguments = session.config.arguments_of("preempt")
        dry = flag(arguments, "enableTopologyAwarePreemption", False)
        self._trial = Trial(session, arguments) if dry else None
        self._rooms = _Rooms(session.cluster)

    def between_jobs(self, jobs: Heap[Job]) -> None:
        session = self._session
        tasks: dict[int, list[int]] = {}
        while len(jobs):
            job = jobs.pop()
            if job.index not in tasks:
                tasks[job.index] = needed_first(session, job, session.pending(job))[::-1]
            left = tasks[job.index]
            statement = Statement(session)
            assigned = False
            while left and session.job_starving(job):
                assigned = self._for_task(statement, left.pop(), within=False)
            if not session.job_pipelined(job):
                statement.discard()
                continue
            statement.commit()
            if assigned:
                jobs.push(job)

    def within_job(self, job: Job) -> None:
        session = self._session
        for t in session.sort_tasks(session.pending(job)):
            statement = Statement(session)
            if not self._for_task(statement, t, within=True):
                return
            if not (statement.has_evictions() or session.job_pipelined(job)):
                # this room was free anyway, but too little for the job to start
                statement.discard()
                return
            statement.commit()

    def _allowed(self, preemptor: int, *, within: bool) -> Allowed:
        """Return a function that tells whether a task may be evicted for `preemptor`: it must be a
        task of another job in the same queue or, if `within` is true, of the same job.
        """
        cluster = self._session.cluster
        mine = self._session.job(preemptor)
        idle = cluster.eq_class[preemptor].best_effort

        def allowed(t: int) -> bool:
            if cluster.status[t] not in (j.RUNNING, j.BOUND) or not cluster.tasks[t].preemptable:
                return False
            if idle and not cluster.eq_class[t].best_effort:
                return False
            index = cluster.job_of[t]
            if within:
                return index == mine.index
            return 0 <= index != mine.index and cluster.jobs[index].queue == mine.queue

        return allowed

    def _for_task(self, statement: Statement, t: int, *, within: bool) -> bool:
        session = self._session
        if session.cluster.tasks[t].preemption_policy == "Never":
            return False
        if session.hooks.first("pre_predicate", t) is not None:
            return False
        ask = session.placer.ask(t)
        allowed = self._allowed(t, within=within)
        if self._trial is not None:
            nodes = np.flatnonzero(session.placer.curable(ask))
            return self._trial.preempt(statement, ask, nodes, allowed)
        _, could_hold = self._rooms.of(ask.eq_class)
        ranked = session.placer.ranked(ask, could_hold)
        if within and not any(map(allowed, session.job(t).tasks)):
            allowed = _nobody
        return self._in_order(statement, t, ranked, allowed)

    def _in_order(
        self, statement: Statement, t: int, nodes: Iterable[int], allowed: Allowed
    ) -> bool:
        session, cluster = self._session, self._session.cluster
        has_room, _ = self._rooms.of(cluster.eq_class[t])
        for node in nodes:
            on_node = [] if allowed is _nobody else sorted(cluster.on_node[node])
            candidates = [v for v in on_node if allowed(v)]
            if not (candidates or has_room[node]):
                continue
            victims = session.hooks.intersect("preemptable", t, candidates)
            if not _enough(session, t, node, victims):
                continue
            attempt = Statement(session)
            is_settled = self._settled(t, node)
            for v in session.sort_victims(victims, t):
                if is_settled:
                    break
                attempt.evict(v, "preempt")
                is_settled = self._settled(t, node)
            if is_settled:
                attempt.pipeline(t, node)
                statement.merge(attempt)
                return True
            attempt.discard()
        return False

    def _settled(self, t: int, node: int) -> bool:
        session = self._session
        if not (session.placer.fits(t, node) and session.allocatable(t)):
            return False
        return session.placer.passes_now(session.placer.ask(t), node)


def _nobody(_: int) -> bool:
    return False


class _Rooms:
    """For each class of tasks: the nodes with room for a task. When nodes have changed, only these
    nodes are computed again.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._known: dict[int, tuple[Flags, Flags]] = {}
        self._marks: dict[int, int] = {}
        """The version of the cluster at which the masks of each class were computed."""

    def of(self, eq_class: EquivalenceClass) -> tuple[Flags, Flags]:
        """Return two masks of nodes for a task of the class. The first has the nodes whose future
        room holds the task. The second has the nodes that would hold the task if all tasks there
        left, except promised ones. Callers must not keep the masks: the next call changes both.
        """
        cluster = self._cluster
        known = self._known.get(eq_class.index)
        mark = self._marks.get(eq_class.index, -1)
        if known is not None and mark == cluster.version:
            return known
        index = np.flatnonzero(cluster.changed_at > mark)
        self._marks[eq_class.index] = cluster.version
        if known is None:
            n = len(cluster.nodes)
            known = (np.zeros(n, dtype=np.bool_), np.zeros(n, dtype=np.bool_))
            self._known[eq_class.index] = known
        has_room, could_hold = known
        holds = holding = np.ones(len(index), dtype=np.bool_)
        for r in eq_class.asked:
            wanted = eq_class.request[r]
            at_most = cluster.capacity[:, r].take(index) - cluster.promised[:, r].take(index)
            holds = holds & (cluster.future[:, r].take(index) >= wanted)
            holding = holding & (at_most >= wanted)
        has_room[index] = holds
        could_hold[index] = holding
        return known


def _enough(session: Session, t: int, node: int, victims: Sequence[int]) -> bool:
    """Whether the node's future room would hold the task without these victims."""
    cluster = session.cluster
    eq_class = cluster.eq_class[t]
    room = cluster.future[node].copy()
    for v in victims:
        room += cluster.eq_class[v].request
    return bool((room >= eq_class.request)[eq_class.asked].all())
