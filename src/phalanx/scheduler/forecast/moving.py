"""Moves of running work that let waiting work start: those that a cycle decided, and those that the
action consolidate would make.
"""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from phalanx.model.rows.explanation import MovedWork, WouldMove
from phalanx.scheduler.actions import consolidate
from phalanx.scheduler.actions.consolidate import Consolidation
from phalanx.scheduler.cycle.cycle import run_cycle
from phalanx.scheduler.cycle.plan import Moves
from phalanx.scheduler.cycle.session import Session
from phalanx.scheduler.cycle.specs import Snapshot, TaskSpec
from phalanx.scheduler.forecast.planner import lent


class MovesOf:
    """The moves for the waiting podgroups of one session, whose cycle is over."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._search: Consolidation | None = None

    def of(self, podgroup: str) -> WouldMove | None:
        """Return the moves after which the podgroup starts or could start; None if no moves help.
        The session is unchanged afterwards.
        """
        session = self._session
        is_on = consolidate.NAME in session.config.actions
        for moves in session.moves:
            if moves.claimant == podgroup:
                return _shown(moves, is_decided=True, is_on=is_on)
        index = session.cluster.job_index.get(podgroup)
        if index is None:
            return None
        search = self._search = self._search or Consolidation(session)
        job = session.cluster.jobs[index]
        if not search.has_movers or not search.may_claim(job):
            return None
        found = search.attempt(job)
        if found is None:
            return None
        statement, moves = found
        statement.discard()
        return _shown(moves, is_decided=False, is_on=is_on)


def _shown(moves: Moves, *, is_decided: bool, is_on: bool) -> WouldMove:
    return WouldMove(
        jobs=[
            MovedWork(podgroup=one.podgroup, lost_s=one.lost_s, restart_s=one.restart_s)
            for one in moves.jobs
        ],
        is_decided=is_decided,
        is_on=is_on,
    )


def with_moves(snapshot: Snapshot) -> tuple[Snapshot, tuple[Moves, ...], frozenset[str]]:
    """Return three values: the snapshot after the moves that the action consolidate would make now,
    these moves, and the waiting podgroups that start in that snapshot.

    As in a cycle, podgroups that have room without moves start first.
    """
    config = replace(snapshot.config, actions=("allocate", consolidate.NAME))
    plan = run_cycle(replace(snapshot, config=config), shells=lent(), explains=False)
    places = {**plan.homes, **plan.binds}
    if not plan.moves:
        return snapshot, (), frozenset()

    def moved(task: TaskSpec) -> TaskSpec:
        node = places.get(task.uid)
        if node is None:
            return task
        return replace(task, node=node, phase="Running", started=snapshot.now, nominated_node="")

    waited = {f"{t.namespace}/{t.podgroup}" for t in snapshot.tasks if t.phase == "Pending"}
    begun = {f"{t.namespace}/{t.podgroup}" for t in snapshot.tasks if t.uid in places}
    groups = tuple(
        replace(group, started=snapshot.now, phase="Running") if group.uid in begun else group
        for group in snapshot.podgroups
    )
    after = msgspec.structs.replace(
        snapshot, tasks=tuple(map(moved, snapshot.tasks)), podgroups=groups
    )
    return after, plan.moves, frozenset(begun & waited)
