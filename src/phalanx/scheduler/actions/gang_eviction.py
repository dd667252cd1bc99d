"""Makes room for a whole gang in one domain by evicting bundles of other gangs.

Source: Volcano's gangpreempt and gangreclaim. Domains are tried from the widest to the closest.
Bundles are evicted until the idle room and the freed room together could hold the gang. Then the
gang is placed there as a trial. If the gang is pipelined by this, the evictions and promises are
kept, and the next cycle's allocate tries the same nodes first. Two quirks of Volcano are off with
compat "none". Volcano evicts a safe bundle as a whole, even if a part of it would be enough. It
also evicts a bundle where idle room is enough; this seldom happens, because allocate runs before
these actions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np

from phalanx.scheduler.actions import entitled
from phalanx.scheduler.actions.bundles import Bundle, approved, bundles_of, one_by_one, ordered
from phalanx.scheduler.actions.domains import EVICT, levels_for
from phalanx.scheduler.actions.worksheet import Tasks, Worksheet, worksheet_of
from phalanx.scheduler.cycle import jobs as j
from phalanx.scheduler.cycle.amounts import Vector
from phalanx.scheduler.cycle.arguments import flag, whole
from phalanx.scheduler.cycle.evictions import EvictionAsk
from phalanx.scheduler.cycle.hypernodes import TOP
from phalanx.scheduler.cycle.jobs import Job, SubJob
from phalanx.scheduler.cycle.ordering import Heap, QueueHeap
from phalanx.scheduler.cycle.session import Session
from phalanx.scheduler.cycle.statement import Statement

_DOMAINS = 8


class GangEviction:
    """One run of gangpreempt or gangreclaim. Its arguments are `maxDomains` (8) and
    `allowWholeBundle` (true).
    """

    def __init__(self, session: Session, action: str, *, within_queue: bool) -> None:
        arguments = session.config.arguments_of(action)
        most = whole(arguments, "maxDomains", _DOMAINS)
        self._session = session
        self._most = most if most > 0 else _DOMAINS
        self._whole = flag(arguments, "allowWholeBundle", True)
        self._within = within_queue
        self._action = action

    def run(self) -> None:
        session = self._session
        queues = QueueHeap(session.compare_queues)
        starving: dict[int, Heap[Job]] = {}
        for job in session.cluster.jobs:
            if job.is_pending() or not session.job_valid(job):
                continue
            if job.queue not in starving:
                starving[job.queue] = Heap(session.job_key)
                queues.push(job.queue)
            if session.job_starving(job) and not (self._within and session.entitled(job)):
                starving[job.queue].push(job)
        while len(queues):
            queue = queues.pop()
            if not self._within and session.overused(queue):
                continue
            while len(starving[queue]):
                self._for_job(starving[queue].pop())

    def _for_job(self, job: Job) -> None:
        session = self._session
        statement = Statement(session)
        places = self._in_domains(statement, job)
        if session.job_pipelined(job):
            statement.commit()
            for uid, domain in places.items():
                job.subjobs[uid].nominated_hypernode = domain
        else:
            statement.discard()

    def _in_domains(self, statement: Statement, job: Job) -> dict[str, str]:
        session, cluster = self._session, self._session.cluster
        pending = self._pending(job)
        if not pending:
            return {}
        need = self._sum(pending)
        if not self._within and not session.hooks.every("preemptive", job.queue, need):
            return {}
        for domain in self._domains(job):
            members = cluster.hypernodes.members[domain]
            if session.entitled(job):
                places = self._attempt(statement, job, domain, ())
                if places is not None:
                    return places
                continue
            bundles = self._bundles(job, need, domain) if members else []
            room = (cluster.idle[members] + cluster.releasing[members]).sum(axis=0)
            victims: list[int] = []
            tries = [(b.tasks, b.here) for b in bundles]
            if session.strict:
                tries.insert(0, ((), need * 0.0))
            for tasks, here in tries:
                victims += tasks
                room = room + here
                if not bool((room >= need)[need > 0].all()):
                    continue
                places = self._attempt(statement, job, domain, victims)
                if places is not None:
                    return places
        return {}

    def _pending(self, job: Job) -> list[int]:
        """Return all waiting tasks of the job. If the job is already ready, return only the waiting
        tasks of the first of its parts that has any.
        """
        sheet = worksheet_of(self._session, job)
        running = self._session.job_ready(job)
        out: list[int] = []
        while len(sheet):
            out += sheet.tasks[sheet.parts.pop().uid].rest()
            if running and out:
                break
        return out

    def _domains(self, job: Job) -> list[str]:
        levels = levels_for(self._session, "job_gradient", job, TOP, EVICT)
        names = list(dict.fromkeys(name for level in levels for name in level))
        if not names and not job.is_hard():
            names = [TOP]
        return names[: self._most]

    # -- victims --------------------------------------------------------------------------------

    def _bundles(self, job: Job, need: Vector, domain: str) -> list[Bundle]:
        session, cluster = self._session, self._session.cluster
        by_job: dict[int, list[int]] = {}
        for node in cluster.hypernodes.members[domain]:
            for t in sorted(cluster.on_node[node]):
                if self._may_go(job, t):
                    by_job.setdefault(cluster.job_of[t], []).append(t)
        bundles = [
            b for i in sorted(by_job) for b in bundles_of(cluster, cluster.jobs[i], by_job[i])
        ]
        if not bundles:
            return []
        compare = self._comparer(job)
        bundles = ordered(bundles, need, compare)
        candidates = [t for b in bundles for t in b.tasks]
        ask = EvictionAsk(job=job, within_queue=self._within, domain=domain)
        allowed = set(session.hooks.intersect("evictable", ask, candidates))
        kept = ordered(approved(cluster, bundles, allowed), need, compare)
        if session.strict:
            kept = one_by_one(cluster, kept)
        return [b for b in kept if self._whole or not b.whole]

    def _may_go(self, job: Job, t: int) -> bool:
        cluster = self._session.cluster
        index = cluster.job_of[t]
        if index < 0 or not cluster.tasks[t].preemptable:
            return False
        victim = cluster.jobs[index]
        said = dict(victim.spec.annotations).get("volcano.sh/preemptable")
        if said is not None and said != "true":
            return False
        if self._within:
            lower = victim.yields_to(job) and victim is not job
            alive = cluster.status[t] in (j.RUNNING, j.BOUND)
            return alive and lower and victim.queue == job.queue
        if victim.queue == job.queue or cluster.status[t] != j.RUNNING:
            return False
        return cluster.queues[victim.queue].reclaimable

    def _comparer(self, job: Job) -> Callable[[Job, Job], int]:
        session = self._session

        def by_job(a: Job, b: Job) -> int:
            ka, kb = session.job_key(a), session.job_key(b)
            return (ka < kb) - (ka > kb)

        def by_queue(a: Job, b: Job) -> int:
            if a.queue == b.queue:
                return 0
            answer = session.hooks.compare("victim_queue_order", a.queue, b.queue, job.queue)
            return answer or -session.compare_queues(a.queue, b.queue)

        return by_job if self._within else by_queue

    # -- placing on trial -----------------------------------------------------------------------

    def _attempt(
        self, statement: Statement, job: Job, domain: str, victims: Sequence[int]
    ) -> dict[str, str] | None:
        """Evict the victims, and place the gang in the domain.

        If the gang is then pipelined, adds the moves to `statement`, and returns the domain of each
        part of the gang. Otherwise undoes all moves, and returns None.
        """
        session = self._session
        before = job.counts[j.PIPELINED] + job.counts[j.ALLOCATED] + job.counts[j.BINDING]
        was_ready = session.job_ready(job)
        marks = {uid: sub.allocated_hypernode for uid, sub in job.subjobs.items()}
        attempt = Statement(session)
        for v in victims:
            attempt.evict(v, self._action)
        places = self._place_all(attempt, job, domain, was_ready)
        progress = job.counts[j.PIPELINED] + job.counts[j.ALLOCATED] + job.counts[j.BINDING]
        if places is not None and progress > before and session.job_pipelined(job):
            statement.merge(attempt)
            return places
        attempt.discard()
        for uid, mark in marks.items():
            job.subjobs[uid].allocated_hypernode = mark
        return None

    def _place_all(
        self, attempt: Statement, job: Job, domain: str, was_ready: bool
    ) -> dict[str, str] | None:
        session = self._session
        sheet: Worksheet = worksheet_of(session, job)
        places: dict[str, str] = {}
        while len(sheet):
            sub = sheet.parts.pop()
            tasks = sheet.tasks[sub.uid]
            chosen = self._place_part(attempt, sub, tasks, domain)
            if chosen is None:
                return None
            places[sub.uid] = chosen
            if len(tasks):
                sheet.parts.push(sub)
            if was_ready or session.job_pipelined(job):
                break
        return places

    def _place_part(self, attempt: Statement, sub: SubJob, tasks: Tasks, within: str) -> str | None:
        """Place the part in the first domain in which it fits, and return that domain; None if the
        part fits in no domain. The placed tasks are removed from `tasks`.
        """
        session = self._session
        hard = sub.job.is_hard()
        levels = levels_for(session, "subjob_gradient", sub, within, EVICT) if hard else [[within]]
        for name in (name for level in levels for name in level):
            mark, trial = attempt.checkpoint(), tasks.copy()
            if self._fill(attempt, sub, trial, name):
                tasks.take(len(tasks) - len(trial))
                if hard:
                    tree = session.cluster.hypernodes
                    sub.allocated_hypernode = tree.common(sub.allocated_hypernode, name)
                return name
            attempt.rollback(mark)
        return None

    def _fill(self, attempt: Statement, sub: SubJob, tasks: Tasks, domain: str) -> bool:
        session, cluster = self._session, self._session.cluster
        mask = session.placer.mask_of(cluster.hypernodes.members[domain])
        start = attempt.checkpoint()
        at = sub.allocated_hypernode
        if session.entitled(sub.job):
            entitled.fill(session, attempt, sub, tasks, mask, action=self._action)
            tasks = Tasks([], None)
        while len(tasks):
            t = tasks.take(1)[0]
            if not session.allocatable(t):
                return False
            if session.hooks.first("pre_predicate", t) is not None:
                return False
            ask = session.placer.ask(t, at)
            request, asked = ask.eq_class.request, ask.eq_class.asked
            good = session.placer.curable(ask, mask)
            fits = np.all(cluster.future[:, asked] >= request[asked], axis=1)
            idle = np.all(cluster.idle[:, asked] >= request[asked], axis=1)
            good = good & fits
            now = good & idle
            node = session.placer.best(ask, now if now.any() else good)
            if node < 0:
                return False
            if now[node]:
                attempt.allocate(ask.eq_class, [t], [node])
            else:
                attempt.pipeline(t, node)
            if sub.topology is not None:
                at = cluster.hypernodes.common(at, cluster.hypernodes.lowest_of(node))
            if session.subjob_ready(sub.job, sub):
                break
        if attempt.checkpoint() == start:
            return False
        return session.subjob_ready(sub.job, sub) or session.subjob_pipelined(sub.job, sub)

    def _sum(self, tasks: Iterable[int]) -> Vector:
        total = np.zeros(len(self._session.cluster.dims))
        for t in tasks:
            total += self._session.cluster.eq_class[t].vector
        return total
