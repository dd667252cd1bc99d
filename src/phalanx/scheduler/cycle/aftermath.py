"""Computes the snapshot that follows a plan, if everything in the plan succeeds. So several cycles
can be run one after another.
"""

from __future__ import annotations

import msgspec

from phalanx.scheduler.cycle.plan import Plan
from phalanx.scheduler.cycle.specs import Snapshot, TaskSpec


def after(snapshot: Snapshot, plan: Plan) -> Snapshot:
    """Return the snapshot after the plan.

    Bound tasks run. Evicted tasks have left their nodes and are pending again. Podgroups have their
    new phases, and nodes that were set aside for tasks are recorded.
    """
    evicted = set(plan.evicted)
    tasks = tuple(_task(t, plan, evicted) for t in snapshot.tasks)
    groups = tuple(
        msgspec.structs.replace(
            g,
            phase=_phase(plan.phases.get(g.uid, g.phase)),
            allocated_hypernode=plan.allocated_hypernodes.get(g.uid, g.allocated_hypernode),
        )
        for g in snapshot.podgroups
    )
    acted = dict(snapshot.last_acted) | dict.fromkeys(plan.acted, snapshot.now)
    return msgspec.structs.replace(
        snapshot, tasks=tasks, podgroups=groups, last_acted=tuple(acted.items()), expect=None
    )


def _task(task: TaskSpec, plan: Plan, evicted: set[str]) -> TaskSpec:
    node = plan.binds.get(task.uid)
    if node is not None:
        return msgspec.structs.replace(task, node=node, phase="Running", nominated_node="", home="")
    home = plan.homes.get(task.uid, "")
    if task.uid in evicted or task.phase == "Releasing":
        return msgspec.structs.replace(
            task, node="", phase="Pending", nominated_node="", home=home, card=-1
        )
    nominated = plan.nominations.get(task.uid, task.nominated_node)
    if (nominated, home) == (task.nominated_node, task.home):
        return task
    return msgspec.structs.replace(task, nominated_node=nominated, home=home)


def _phase(phase: str) -> str:
    """Return the podgroup's phase for the next cycle. A gang in the phase Unknown is let in
    again.
    """
    return "Inqueue" if phase == "Unknown" else phase
