"""Places a job within one network domain. Domains whose nodes are closer to each other are tried
first.

Source: Volcano's allocateForJob and allocateForSubJob. Domains are tried in levels, closest first.
The first level that has a domain with room for the job decides: of its domains with room, the one
with the best score is taken. All trials are undone.
"""

from __future__ import annotations

from phalanx.scheduler.actions.fitting import Fitting
from phalanx.scheduler.actions.worksheet import Tasks, Worksheet
from phalanx.scheduler.cycle.attempts import attempt_of
from phalanx.scheduler.cycle.jobs import Job, SubJob
from phalanx.scheduler.cycle.session import Session
from phalanx.scheduler.cycle.statement import Move, Statement

ALLOCATE, EVICT = "allocate", "evict"
"""The purposes for which the levels of domains are requested."""


def levels_for(
    session: Session, hook: str, part: Job | SubJob, within: str, purpose: str
) -> list[list[str]]:
    """Return the domains to try for a job (hook job_gradient) or for a subjob (hook
    subjob_gradient), level by level. If no plugin answers, there is one level with the domain
    `within`.
    """
    levels: list[list[str]] | None = session.hooks.first(hook, part, within, purpose)
    return [[within]] if levels is None else levels


class DomainAllocation:
    """The search for a domain for one job."""

    def __init__(self, session: Session, fitting: Fitting) -> None:
        self._session = session
        self._fitting = fitting

    def allocate(self, job: Job, sheet: Worksheet, within: str) -> Statement | None:
        """Allocate enough tasks of the job in the best domain. Returns the moves, or None if no
        domain has room for the job.
        """
        if not len(sheet):
            return None
        before = {sub.uid: _marks(sub) for sub in job.subjobs.values()}
        for level in levels_for(self._session, "job_gradient", job, within, ALLOCATE):
            found: dict[str, tuple[float, list[Move], Worksheet, dict[str, tuple[str, str]]]] = {}
            for domain in level:
                job.forget_failures()
                trial = sheet.copy()
                statement, score, works = self._try(job, trial, domain)
                after = {sub.uid: _marks(sub) for sub in job.subjobs.values()}
                moves = statement.save()
                for sub in job.subjobs.values():
                    _restore(sub, before[sub.uid])
                if moves and works:
                    found[domain] = (score, moves, trial, after)
            if found:
                best = max(sorted(found), key=lambda name: found[name][0])
                _, moves, trial, after = found[best]
                statement = Statement(self._session)
                statement.recover(moves)
                sheet.take_over(trial)
                for sub in job.subjobs.values():
                    _restore(sub, after[sub.uid])
                return statement
        self._session.note_attempt(job, attempt_of(job))
        return None

    def _try(self, job: Job, sheet: Worksheet, domain: str) -> tuple[Statement, float, bool]:
        session = self._session
        statement = Statement(session)
        total = 0.0
        while len(sheet):
            sub = sheet.parts.pop()
            tasks = sheet.tasks[sub.uid]
            done, score = self._part(sub, tasks, domain)
            if done is None or not len(done):
                continue
            statement.merge(done)
            total += score
            if len(tasks):
                sheet.parts.push(sub)
            if session.job_ready(job):
                break
        return statement, total, session.job_ready(job) or session.job_pipelined(job)

    def _part(self, sub: SubJob, tasks: Tasks, within: str) -> tuple[Statement | None, float]:
        session = self._session
        if sub.nominated_hypernode:
            done = self._nominated(sub, tasks)
            if done is not None:
                return done, 0.0
        for level in levels_for(session, "subjob_gradient", sub, within, ALLOCATE):
            found: dict[str, tuple[list[Move], Tasks]] = {}
            for domain in level:
                sub.job.forget_failures(sub)
                trial = tasks.copy()
                tried = self._fitting.fill(sub, trial, domain)
                moves = tried.save() if tried is not None else []
                if moves:
                    found[domain] = (moves, trial)
            if found:
                best, score = self._best(sub, sorted(found))
                moves, trial = found[best]
                statement = Statement(session)
                statement.recover(moves)
                tasks.take(len(tasks) - len(trial))
                hypernodes = session.cluster.hypernodes
                sub.allocated_hypernode = hypernodes.common(sub.allocated_hypernode, best)
                return statement, score
        return None, 0.0

    def _best(self, sub: SubJob, domains: list[str]) -> tuple[str, float]:
        scores = dict.fromkeys(domains, 0.0)
        for fn in self._session.hooks.all("hypernode_order"):
            for name, score in fn(sub, domains).items():
                scores[name] += score
        best = max(domains, key=lambda name: scores[name])
        return best, scores[best]

    def _nominated(self, sub: SubJob, tasks: Tasks) -> Statement | None:
        """Use the room that a gang eviction set aside for the subjob, if every task still fits its
        node. Otherwise give the room up, and return None.
        """
        session, cluster = self._session, self._session.cluster
        pinned = sub.nominated_hypernode
        statement = Statement(session)
        members = set(cluster.hypernodes.members.get(pinned, ()))
        for t in tasks.rest():
            node = cluster.nominated.get(t, -1)
            ask = session.placer.ask(t, pinned)
            good = node in members and session.allocatable(t)
            if not good or not session.placer.answers(ask).open[node]:
                statement.discard()
                sub.nominated_hypernode = ""
                return None
            if session.placer.has_room_now(ask, node):
                statement.allocate(ask.eq_class, [t], [node])
            else:
                statement.pipeline(t, node)
        tasks.take(len(tasks))
        sub.allocated_hypernode = cluster.hypernodes.common(sub.allocated_hypernode, pinned)
        return statement


def _marks(sub: SubJob) -> tuple[str, str]:
    return sub.allocated_hypernode, sub.nominated_hypernode


def _restore(sub: SubJob, marks: tuple[str, str]) -> None:
    sub.allocated_hypernode, sub.nominated_hypernode = marks
