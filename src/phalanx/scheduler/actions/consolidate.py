"""The action consolidate: moves running podgroups to other nodes, so that a starving podgroup fits.

Modelled on KAI's consolidation. Only podgroups whose annotations allow it are moved (see
`cycle.move_terms`). A podgroup is moved as a whole, and a new place is set aside for each of its
tasks first. Either all moves that the starving podgroup needs are made, or none. Podgroups of low
priority move first, and then those that lose the least work.

A move makes no work wait longer than the plan says. A moved podgroup has a place again as soon as
it has left the old one. It has no higher priority than the podgroup for which it moves, and it does
not move again for the time `settle`. Podgroups that are entitled to their places stay where they
are. Tasks get places on shared cards of one node only if all of them request equal parts, because
the node may give them the cards in any order. If the cluster promises places to waiting work, two
more conditions hold, because promises rely on them: the starving podgroup must end before the moved
podgroups would have ended, and the quotas of its queue must be so large that the nodes are full
first.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import msgspec
import numpy as np

from phalanx.scheduler.actions.worksheet import needed_first
from phalanx.scheduler.cycle import jobs as j
from phalanx.scheduler.cycle.amounts import Counts, Flags
from phalanx.scheduler.cycle.arguments import seconds, whole
from phalanx.scheduler.cycle.cluster import SHARED_DEVICES
from phalanx.scheduler.cycle.jobs import Job
from phalanx.scheduler.cycle.move_terms import move_terms
from phalanx.scheduler.cycle.plan import MovedJob, Moves
from phalanx.scheduler.cycle.session import Session
from phalanx.scheduler.cycle.statement import Arrival, Hold, Move, Statement

NAME = "consolidate"
_TRIED = 32
"""The largest number of starving podgroups for which moves are searched in one cycle."""
_NODES = 64
"""The largest number of nodes that are tried for one task."""
_PROMISED = frozenset({"promised", "no-room-yet"})
"""The reasons why a podgroup is held back until its promised start."""


def run(session: Session) -> None:
    """Run the action. Arguments: `maxMoves` (16), the largest number of tasks that one plan moves;
    `mostLost` (30m), the largest sum of the work that the moved podgroups of one plan lose, and of
    the time of their restarts; `settle` (10m), the time for which a podgroup must have run before
    it moves; `after` (1m), the time for which the starving podgroup must have waited.
    """
    consolidation = Consolidation(session)
    if not consolidation.has_movers:
        return
    hopeless: set[tuple[object, ...]] = set()
    for job in sorted(session.cluster.jobs, key=session.job_key):
        if len(hopeless) >= _TRIED:
            return
        if not consolidation.may_claim(job):
            continue
        kind = (job.queue, job.priority, job.eq_class, job.shortfall(), job.spec.run_time_s)
        if job.eq_class is not None and kind in hopeless:
            continue
        found = consolidation.attempt(job)
        if found is None:
            hopeless.add(kind if job.eq_class is not None else (job.uid,))
            continue
        consolidation.decide(*found)


class _Mover(NamedTuple):
    """A podgroup that may be moved, and the cost of its move in seconds."""

    job: Job
    tasks: Sequence[int]
    lost_s: float
    restart_s: float
    left_s: float | None
    """The seconds until the podgroup ends by itself; None if unknown."""

    def cost(self) -> tuple[int, float]:
        """Return the podgroup's priority, and the seconds that all of its tasks lose in total."""
        return self.job.priority, (self.lost_s + self.restart_s) * len(self.tasks)


class _Clearing(NamedTuple):
    """The moves that make room for one task on a node."""

    cost: tuple[int, float, int]
    node: int
    moves: list[Move]
    movers: list[_Mover]


class Consolidation:
    """The search for moves in one session."""

    def __init__(self, session: Session) -> None:
        self._session = session
        arguments = session.config.arguments_of(NAME)
        self._most = whole(arguments, "maxMoves", 16)
        self._most_lost_s = _seconds(arguments.get("mostLost"), 1800.0)
        self._settle_s = _seconds(arguments.get("settle"), 600.0)
        self._after_s = _seconds(arguments.get("after"), 60.0)
        self._keeps_promises = any(f.reason == "reserved" for f in session.placer.rules()[0])
        movers = (self._mover(job) for job in session.cluster.jobs)
        self._movers = [mover for mover in movers if mover is not None]
        self._moved: set[int] = set()
        """The podgroups that this cycle moves."""
        self._statements: list[Statement] = []
        """The statements that are being made, whose moves are not in the plan yet."""

    @property
    def has_movers(self) -> bool:
        """Whether any podgroup may be moved."""
        return bool(self._movers)

    def may_claim(self, job: Job) -> bool:
        """Whether moves may be made so that this podgroup can start."""
        session = self._session
        if job.is_pending() or not job.counts[j.PENDING] or job.counts[j.PIPELINED]:
            return False
        if job.has_topology() or job.has_subgroups or session.overused(job.queue):
            return False
        created = job.spec.created
        if created is not None and session.now < created + self._after_s:
            return False
        if any(
            refusal is not None and refusal.reason not in _PROMISED
            for refusal in (fn(job) for fn in session.hooks.all("held_back"))
        ):
            return False
        if self._keeps_promises and (job.spec.run_time_s is None or self._has_quota(job)):
            return False
        return session.job_valid(job) and session.job_starving(job) and not session.entitled(job)

    def attempt(self, job: Job) -> tuple[Statement, Moves] | None:
        """Make all moves that this podgroup needs, and promise it the room. Returns the moves as
        one statement, which the caller commits or discards. Returns None, and changes nothing, if
        the podgroup cannot start by moves.
        """
        session = self._session
        statement = Statement(session)
        self._statements = [statement]
        movers = [mover for mover in self._movers if self._may_move_for(mover, job)]
        moved: list[_Mover] = []
        for t in needed_first(session, job, session.pending(job)):
            if not session.job_starving(job):
                break
            if not self._place(statement, t, movers, moved):
                statement.discard()
                return None
        if not moved or not session.job_pipelined(job):
            statement.discard()
            return None
        jobs = tuple(
            MovedJob(
                podgroup=one.job.uid,
                tasks=len(one.tasks),
                lost_s=one.lost_s,
                restart_s=one.restart_s,
            )
            for one in moved
        )
        return statement, Moves(claimant=job.uid, jobs=jobs)

    def decide(self, statement: Statement, moves: Moves) -> None:
        """Add the moves to the plan of the cycle."""
        session, cluster = self._session, self._session.cluster
        job = cluster.jobs[cluster.job_index[moves.claimant]]
        statement.commit()
        session.moves.append(moves)
        for t in job.tasks:
            if cluster.status[t] == j.PIPELINED:
                session.homes[t] = cluster.node_of[t]
        for one in moves.jobs:
            mover = cluster.jobs[cluster.job_index[one.podgroup]]
            self._moved.add(mover.index)
            for t in mover.tasks:
                if t in session.homes:
                    home = cluster.node_names[session.homes[t]]
                    eviction = session.evictions[t]
                    session.evictions[t] = msgspec.structs.replace(eviction, move_to=home)

    # -- which podgroups may move ----------------------------------------------------------------

    def _mover(self, job: Job) -> _Mover | None:
        session, cluster = self._session, self._session.cluster
        terms = move_terms(job.spec.annotations)
        if terms is None or job.has_topology() or job.has_subgroups or job.spec.licenses:
            return None
        counts = job.counts
        if not counts[j.RUNNING] or counts[j.RUNNING] != job.holding_count():
            return None
        if counts[j.RELEASING] or counts[j.PENDING] or counts[j.PIPELINED]:
            return None
        if session.entitled(job) or not session.job_valid(job):
            return None
        tasks = [t for t in job.tasks if cluster.status[t] == j.RUNNING]
        known = [cluster.started[t] for t in tasks]
        starts = [job.spec.started if at is None else at for at in known]
        if not all(map(self._is_free_to_move, tasks)):
            return None
        ran_s = min(-math.inf if at is None else session.now - at for at in starts)
        if ran_s < self._settle_s:
            return None
        length_s = job.spec.run_time_s
        left_s = None if length_s is None else max(length_s - ran_s, 0.0)
        lost_s = terms.lost_s(ran_s)
        if left_s is not None and left_s <= lost_s + terms.restart_s:
            return None  # the podgroup ends by itself before a move pays
        return _Mover(job, tasks, lost_s, terms.restart_s, left_s)

    def _is_free_to_move(self, t: int) -> bool:
        """Whether a task may be evicted, and may run on the same nodes whatever other tasks are
        there.
        """
        cluster = self._session.cluster
        shape = cluster.eq_class[t].shape
        tied = shape.spread or shape.ports or (shape.affinity and shape.affinity.between_tasks)
        by_device = any(name.startswith(SHARED_DEVICES) for name, _ in shape.request)
        return cluster.tasks[t].preemptable and not tied and not by_device

    def _may_move_for(self, mover: _Mover, job: Job) -> bool:
        if mover.job is job or mover.job.index in self._moved or mover.job.priority > job.priority:
            return False
        if not self._keeps_promises:
            return True
        length_s = job.spec.run_time_s
        is_long = mover.left_s is not None and length_s is not None and mover.left_s >= length_s
        return is_long and not self._has_quota(mover.job)

    def _has_quota(self, job: Job) -> bool:
        """Whether a quota could stop the job's queue while nodes still have room."""
        cluster = self._session.cluster
        others = cluster.total.v - cluster.held_in_queue[job.queue]
        lefts = (left for fn in self._session.hooks.all("quotas") for _, left in fn(job.queue))
        return any(bool((left < others).any()) for left in lefts)

    # -- making room -----------------------------------------------------------------------------

    def _place(
        self, statement: Statement, t: int, movers: Sequence[_Mover], moved: list[_Mover]
    ) -> bool:
        """Promise room to a task, and move podgroups if the task needs that. Moved podgroups are
        added to `moved`. Returns False, and changes nothing, if the task finds no room.
        """
        session = self._session
        if session.hooks.first("pre_predicate", t) is not None or not session.allocatable(t):
            return False
        ask = session.placer.ask(t)
        fits = session.placer.answers(ask).open
        if fits.any() and (closed := self._closed_to(t)):
            fits = fits.copy()
            fits[closed] = False
        if fits.any():
            statement.pipeline(t, session.placer.best(ask, fits))
            return True
        left = [mover for mover in movers if mover not in moved]
        best: _Clearing | None = None
        for node in self._nodes(t, left):
            there = [x for x in left if any(session.cluster.node_of[v] == node for v in x.tasks)]
            for ordered in self._orders(there, node, session.cluster.eq_class[t].asked):
                found = self._clear(t, node, ordered, moved)
                if found is not None and (best is None or found.cost < best.cost):
                    best = found
        if best is None:
            return False
        statement.recover(best.moves)
        statement.pipeline(t, best.node)
        moved += best.movers
        return True

    def _nodes(self, t: int, movers: Sequence[_Mover]) -> list[int]:
        """Return the nodes that may have room for the task after podgroups have moved. The nodes
        that lack least for the task come first.
        """
        cluster, placer = self._session.cluster, self._session.placer
        eq_class = cluster.eq_class[t]
        asked = eq_class.asked
        room: Counts = np.zeros_like(cluster.future)
        movable: Flags = np.zeros(len(cluster.nodes), dtype=np.bool_)
        for mover in movers:
            for v in mover.tasks:
                room[cluster.node_of[v]] += cluster.eq_class[v].request
                movable[cluster.node_of[v]] = True
        request = eq_class.request[asked]
        future = cluster.future[:, asked]
        can = (future + room[:, asked] >= request).all(axis=1) & movable
        nodes = np.flatnonzero(can & placer.static(placer.ask(t)))
        lack = (np.maximum(request - future[nodes], 0) / request).sum(axis=1)
        chosen: list[int] = nodes[np.argsort(lack, kind="stable")][:_NODES].tolist()
        return chosen

    def _orders(
        self, movers: Sequence[_Mover], node: int, asked: Sequence[int]
    ) -> list[list[_Mover]]:
        """Return the orders in which podgroups are tried: by the work that they lose (least first)
        and, if that order differs, by the amount of the requested resources that they hold on the
        node (most first).
        """
        cluster = self._session.cluster

        def held(mover: _Mover) -> int:
            here = (v for v in mover.tasks if cluster.node_of[v] == node)
            return sum(int(cluster.eq_class[v].request[asked[-1]]) for v in here)

        cheapest = sorted(movers, key=lambda one: (*one.cost(), one.job.uid))
        largest = sorted(movers, key=lambda one: (one.job.priority, -held(one), *one.cost()))
        return [cheapest] if cheapest == largest else [cheapest, largest]

    def _clear(
        self, t: int, node: int, movers: Iterable[_Mover], moved: Sequence[_Mover]
    ) -> _Clearing | None:
        """Find moves of these podgroups, in this order, after which the task fits on the node. The
        cluster's state is the same afterwards as before.
        """
        session = self._session
        ask = session.placer.ask(t)
        trial = Statement(session)
        self._statements.append(trial)
        chosen: list[_Mover] = []
        count = sum(len(mover.tasks) for mover in moved)
        lost_s = sum(mover.lost_s + mover.restart_s for mover in moved)
        for mover in movers:
            if session.placer.fits(t, node) and session.placer.passes_now(ask, node):
                break
            more_s = mover.lost_s + mover.restart_s
            if count + len(mover.tasks) > self._most or lost_s + more_s > self._most_lost_s:
                continue
            if self._move(trial, mover, node):
                chosen.append(mover)
                count, lost_s = count + len(mover.tasks), lost_s + more_s
        is_clear = session.placer.fits(t, node) and session.placer.passes_now(ask, node)
        is_clear = is_clear and node not in self._closed_to(t)
        moves = trial.save()
        self._statements.pop()
        if not is_clear:
            return None
        highest = max((mover.job.priority for mover in chosen), default=0)
        total = sum(mover.cost()[1] for mover in chosen)
        return _Clearing((highest, total, len(chosen)), node, moves, chosen)

    def _move(self, trial: Statement, mover: _Mover, away_from: int) -> bool:
        """Evict a podgroup's tasks, and set room aside on a new node (a home) for each of them.
        Returns False, and changes nothing, if a task finds no home.
        """
        mark = trial.checkpoint()
        for v in mover.tasks:
            trial.evict(v, NAME)
        for v in mover.tasks:
            home = self._home(v, away_from)
            if home < 0:
                trial.rollback(mark)
                return False
            trial.hold(v, home)
        return True

    def _home(self, v: int, away_from: int) -> int:
        """Return the fullest node, other than `away_from`, that takes the evicted task now; among
        equals, the first by name; -1 if there is none. The node that the task leaves may be
        returned, too.
        """
        session, cluster = self._session, self._session.cluster
        if not session.allocatable(v):
            return -1
        answers = session.placer.answers(session.placer.ask(v))
        good = answers.room.copy()
        good[cluster.node_of[v]] |= answers.open[cluster.node_of[v]]
        good[away_from] = False
        good[self._closed_to(v)] = False
        nodes = np.flatnonzero(good)
        if len(nodes) == 0:
            return -1
        asked = cluster.eq_class[v].asked
        capacity = np.maximum(cluster.capacity[nodes][:, asked], 1)
        spare = (cluster.future[nodes][:, asked] / capacity).sum(axis=1)
        return int(nodes[np.argmin(spare)])

    # -- shared cards ----------------------------------------------------------------------------

    def _closed_to(self, t: int) -> list[int]:
        """Return the nodes that are closed to the task because of shared cards: another task has
        its home or a promised place there, and requests other parts of cards.

        The node chooses the cards when a task starts. If the tasks started in another order, the
        last one might find no card with room.
        """
        shape_of = self._session.cluster.eq_class
        mine = shape_of[t].shape
        return [
            node
            for v, node in self._planned()
            if (mine.shares_cards or shape_of[v].shape.shares_cards)
            and mine.cards != shape_of[v].shape.cards
        ]

    def _planned(self) -> Iterator[tuple[int, int]]:
        """Yield the tasks with homes or promised places, and their nodes."""
        yield from self._session.homes.items()
        for statement in self._statements:
            for move in statement.moves:
                if isinstance(move, Hold):
                    yield move.task, move.node
                elif isinstance(move, Arrival):
                    yield from zip(move.tasks, move.nodes, strict=True)


def _seconds(written: object, default: float) -> float:
    given = seconds(written)
    return default if given is None else given
