"""The action consolidate: moves running work closer together for a gang, if all of the moved work
fits again.

Modelled on KAI's consolidation. If a starving job finds no node, a node may be cleared of its
preemptable tasks, if each of them has room on another node now. These tasks are evicted, each with
a node on which it starts again, and their room is promised to the job. If any of the tasks fits
nowhere, nothing moves. Tasks whose place depends on their neighbours (affinity, spread, ports)
stay.
"""

from __future__ import annotations

import msgspec
import numpy as np

from phalanx.scheduler.cycle import jobs as j
from phalanx.scheduler.cycle.amounts import Counts
from phalanx.scheduler.cycle.arguments import whole
from phalanx.scheduler.cycle.jobs import Job
from phalanx.scheduler.cycle.session import Session
from phalanx.scheduler.cycle.statement import Statement

NAME = "consolidate"


def run(session: Session) -> None:
    """Run the action. The argument `maxMoves` (16) limits how many tasks are moved to make room for
    one task.
    """
    most = whole(session.config.arguments_of(NAME), "maxMoves", 16)
    taken = session.cluster.idle.copy()
    for job in sorted(session.cluster.jobs, key=session.job_key):
        if job.is_pending() or job.has_topology() or not session.job_valid(job):
            continue
        if session.job_starving(job):
            taken = _for_job(session, job, taken, most)


def _for_job(session: Session, job: Job, idle: Counts, most: int) -> Counts:
    """Make room for a job. Returns the room that other nodes have left after the moves."""
    statement = Statement(session)
    before, homes = idle, {}
    for t in session.sort_tasks(session.pending(job)):
        if not session.job_starving(job) or not session.allocatable(t):
            break
        found = _clear_for(session, statement, t, idle, most)
        if found is None:
            break
        idle, moved = found
        homes.update(moved)
    if not homes or not session.job_pipelined(job):
        statement.discard()
        return before
    statement.commit()
    names = session.cluster.node_names
    for t, node in homes.items():
        eviction = session.evictions[t]
        session.evictions[t] = msgspec.structs.replace(eviction, move_to=names[node])
    return idle


def _clear_for(
    session: Session, statement: Statement, t: int, idle: Counts, most: int
) -> tuple[Counts, dict[int, int]] | None:
    """Clear a node for the task. Returns the room that other nodes have left, and the new node of
    each moved task; None if the node cannot be cleared.
    """
    cluster = session.cluster
    ask = session.placer.ask(t)
    for node in session.placer.ranked(ask):
        left = idle.copy()
        left[node] = -1
        homes: dict[int, int] = {}
        mark = statement.checkpoint()
        for v in _movable(session, node):
            if session.placer.fits(t, node) or len(homes) >= most:
                break
            home = _home(session, v, left)
            if home < 0:
                continue
            left[home] -= cluster.eq_class[v].request
            homes[v] = home
            statement.evict(v, NAME)
        if session.placer.fits(t, node) and session.placer.passes_now(ask, node):
            statement.pipeline(t, node)
            left[node] = idle[node]
            return left, homes
        statement.rollback(mark)
    return None


def _movable(session: Session, node: int) -> list[int]:
    """Return the tasks on the node that may move, smallest first."""
    cluster = session.cluster
    out = []
    for t in sorted(cluster.on_node[node]):
        shape = cluster.eq_class[t].shape
        tied = shape.spread or shape.ports or (shape.affinity and shape.affinity.between_tasks)
        known = cluster.job_of[t] >= 0 and cluster.tasks[t].preemptable
        if known and not tied and cluster.status[t] == j.RUNNING:
            out.append(t)
    return sorted(out, key=lambda t: (cluster.eq_class[t].vector.tolist(), t))


def _home(session: Session, t: int, left: Counts) -> int:
    """Return the fullest node that passes the filters and has room now; among equals, the first by
    name; -1 if there is none.
    """
    eq_class = session.cluster.eq_class[t]
    room = (left[:, eq_class.asked] >= eq_class.request[eq_class.asked]).all(axis=1)
    good = np.flatnonzero(session.placer.curable(session.placer.ask(t)) & room)
    if len(good) == 0:
        return -1
    spare = left[good][:, eq_class.asked].sum(axis=1)
    return int(good[np.argmin(spare)])
