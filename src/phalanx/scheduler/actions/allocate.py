"""The action allocate: gives nodes to pending tasks, queue by queue and job by job.

Source: Volcano's allocate action. An overused queue is skipped. In each turn the first job of a
queue gets places for as many of its tasks as it needs to become ready. The places are kept if the
job becomes ready. If the job becomes ready only after evictions have ended, its promises stay for
this cycle. In any other case all its places and promises are taken back. Tasks above the minimum
are placed in later turns. `domains` places jobs with a network bound or subgroups.

Two rules go beyond Volcano. The first: jobs that were promised room take their turns before all
others, together with jobs of higher priority in the same queues. Otherwise evicted work, whose
queue now holds less, could take that room back and be evicted again (volcano#4947). Then come
entitled jobs (see `cycle.places`), because other work in their places would only be evicted for
them. The second rule: if a role finds no room after other roles were placed, the gang is tried once
more with that role first, because the other roles may fit elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterable

from phalanx.scheduler.actions.ceilings import Ceilings
from phalanx.scheduler.actions.domains import DomainAllocation
from phalanx.scheduler.actions.fitting import Fitting
from phalanx.scheduler.actions.worksheet import Worksheet, other_order, worksheet_of
from phalanx.scheduler.cycle.arguments import flag
from phalanx.scheduler.cycle.hypernodes import TOP
from phalanx.scheduler.cycle.jobs import IDLE_PENDING, PENDING, Job
from phalanx.scheduler.cycle.ordering import Heap, QueueHeap
from phalanx.scheduler.cycle.session import Session


def run(session: Session) -> None:
    arguments = session.config.arguments_of("allocate")
    remember = flag(arguments, "predicateErrorCacheEnable", True) and not session.strict
    fitting = Fitting(session, remember_roles=remember)
    ceilings = Ceilings(session)
    sheets: dict[int, Worksheet] = {}
    for jobs in _rounds(session, _candidates(session, ceilings)):
        _take_turns(session, fitting, ceilings, sheets, jobs)


def _rounds(session: Session, candidates: list[Job]) -> list[list[Job]]:
    """Return the candidates in rounds. The first round has the jobs that were promised room, and
    jobs of higher priority in the queues of these jobs. The second round has entitled jobs, and the
    last round has all others.
    """
    rounds = _promised_first(candidates)
    if not session.hooks.all("entitled"):
        return rounds
    *first, rest = rounds
    by_right = [job for job in rest if session.entitled(job)]
    return [*first, by_right, [job for job in rest if not session.entitled(job)]]


def _promised_first(candidates: list[Job]) -> list[list[Job]]:
    lowest: dict[int, int] = {}
    for job in candidates:
        if job.spec.promised:
            lowest[job.queue] = min(job.priority, lowest.get(job.queue, job.priority))
    if not lowest:
        return [candidates]
    first: list[Job] = []
    then: list[Job] = []
    for job in candidates:
        is_first = job.spec.promised or job.priority > lowest.get(job.queue, job.priority)
        (first if is_first else then).append(job)
    return [first, then]


def _take_turns(
    session: Session, fitting: Fitting, ceilings: Ceilings, sheets: dict[int, Worksheet],
    jobs: Iterable[Job],
) -> None:  # fmt: skip
    of_queue: dict[int, list[Job]] = {}
    for job in jobs:
        of_queue.setdefault(job.queue, []).append(job)
    waiting = {queue: Heap(session.job_key, found) for queue, found in of_queue.items()}
    queues = QueueHeap(session.compare_queues)
    for queue in waiting:
        queues.push(queue)
    while len(queues):
        queue = queues.pop()
        heap = waiting[queue]
        if not len(heap) or session.overused(queue):
            continue
        version = session.cluster.version
        # a move may change the order of jobs
        while len(heap) and session.cluster.version == version:
            job = heap.pop()
            stopped = ceilings.stop(job)
            if stopped and not job.spec.promised:
                continue
            if job.index not in sheets:
                sheets[job.index] = worksheet_of(session, job)
            if _turn(session, fitting, job, sheets[job.index], hopeful=stopped is False):
                heap.push(job)
        queues.push(queue)


def _candidates(session: Session, ceilings: Ceilings) -> list[Job]:
    """Return the jobs that were let in, are valid, are not held back and have tasks to place. If
    the configuration lacks the action enqueue, jobs are let in here.

    Jobs that certainly find no room are left out, unless the plan must explain why they wait.
    """
    out = []
    gated = "enqueue" in session.config.actions
    for job in session.cluster.jobs:
        if job.is_pending():
            if gated:
                continue
            job.phase = "Inqueue"
        if not job.counts[PENDING]:
            continue
        if session.held_back(job):
            continue
        if not job.spec.promised and ceilings.stop(job):
            continue
        if session.job_valid(job) and job.counts[PENDING] > job.counts[IDLE_PENDING]:
            out.append(job)
    return out


def _turn(session: Session, fitting: Fitting, job: Job, sheet: Worksheet, *, hopeful: bool) -> bool:
    """Let one job take its turn. Returns whether the job has tasks left for another turn.
    `hopeful`: whether `Ceilings` has found that the job may have room.
    """
    if job.is_hard() or job.has_subgroups:
        statement = DomainAllocation(session, fitting).allocate(job, sheet, TOP)
        if statement is None or not session.job_ready(job):
            return False
        statement.commit()
        _settle(session, job)
        return len(sheet) > 0
    sub = job.default_subjob
    tasks = sheet.tasks.get(job.uid)
    if sub is None or tasks is None:
        return False
    before = tasks.copy()
    statement = fitting.fill(sub, tasks, TOP, hopeful=hopeful)
    if statement is None:
        other = other_order(session, job, before, fitting.turned_away)
        if other is not None:
            job.failed_roles.pop(sub.uid, None)
            tasks = sheet.tasks[job.uid] = other
            statement = fitting.fill(sub, tasks, TOP, hopeful=hopeful)
    if statement is None or not session.job_ready(job):
        return False
    statement.commit()
    return len(tasks) > 0


def _settle(session: Session, job: Job) -> None:
    """Record the smallest network domain that holds all parts of the job."""
    found = job.allocated_hypernode
    for sub in job.subjobs.values():
        found = session.cluster.hypernodes.common(found, sub.allocated_hypernode)
    job.allocated_hypernode = found
