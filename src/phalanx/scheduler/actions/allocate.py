"""Give pending tasks nodes: queue by queue, the job in front, as many of its tasks as ready it.

Source: Volcano's allocate action. A queue that is overused is passed over. What a job was given is
kept if it became ready; if it only will be once evictions end, its promises stay for this cycle;
otherwise all is taken back. Tasks above the minimum come in later turns. Jobs with a network bound
or subgroups go through `domains`. Beyond Volcano, jobs that were promised room have their turns
before all others, and of their queues only who is of higher priority with them: else who was
evicted for them, whose queue now holds less, could take that room again, and would be evicted again
(volcano#4947). And where a role finds no room after others were placed, the gang is tried once more
with that role first: it may be the others who could go elsewhere.
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
    for jobs in _rounds(_candidates(session, ceilings)):
        _take_turns(session, fitting, ceilings, sheets, jobs)


def _rounds(candidates: list[Job]) -> Iterable[list[Job]]:
    """First those who were promised room, with who is of higher priority in their queues; then
    all others."""
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
        while len(heap) and session.cluster.version == version:  # else the order may be another
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
    """Valid jobs that were let in and have tasks to place; without enqueue, this lets them in.

    Those for whom there cannot be room are left out, unless somebody will ask why they wait."""
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
    """One job's turn; True if it has tasks left for another. `hopeful` as for Fitting.fill."""
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
    """Remember in which domain the job now is: the smallest that holds all of its parts."""
    found = job.allocated_hypernode
    for sub in job.subjobs.values():
        found = session.cluster.hypernodes.common(found, sub.allocated_hypernode)
    job.allocated_hypernode = found
