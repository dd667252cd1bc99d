"""Answers questions about a snapshot: why work waits, what would help, and when the work starts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
from msgspec import UNSET, structs

from phalanx.model.rows.explanation import AlikeTasks, ExpectedStart, Explanation, Reason
from phalanx.model.rows.plan import PlannedStart, TimePlan
from phalanx.scheduler.cycle.cluster import Cluster
from phalanx.scheduler.cycle.cycle import decide
from phalanx.scheduler.cycle.explain import sentence
from phalanx.scheduler.cycle.main_reasons import WaitingTasks, main_reasons
from phalanx.scheduler.cycle.plan import Plan, Rejection
from phalanx.scheduler.cycle.remedies import remedy
from phalanx.scheduler.cycle.session import Session
from phalanx.scheduler.cycle.specs import Snapshot
from phalanx.scheduler.cycle.waiting import waiting_order
from phalanx.scheduler.forecast.holders import holders
from phalanx.scheduler.forecast.moving import MovesOf
from phalanx.scheduler.forecast.planner import Planner, lent
from phalanx.scheduler.forecast.reading import ClusterSnapshot
from phalanx.scheduler.forecast.run_times import LearntRunTimes

Ends = Iterable[tuple[str, float | None]]
"""Times at which some tasks of podgroups end, as (podgroup, time); None for an unknown time."""


class Expectation(NamedTuple):
    """The plan of one cycle, and the expected starts of the remaining work. `starts`: the expected
    starts of the podgroups that still wait after `plan`. `order`: the positions of waiting
    podgroups in their queues, from 1.
    """

    plan: Plan
    starts: dict[str, ExpectedStart]
    order: dict[str, int]


def explain_snapshot(
    snapshot: Snapshot, full: str | None = None, learnt: LearntRunTimes | None = None
) -> list[Explanation]:
    """Run a cycle on a snapshot, and explain why work waits. `full`: the name of the podgroup or
    task to explain, as namespace/name.

    Without `full`, the answer covers each waiting podgroup, and each waiting task without a
    podgroup. The explanation of a podgroup includes those of its tasks.
    """
    session, plan, ahead = _decided(snapshot, None, learnt)
    starts, order = _starts(ahead), waiting_order(session)
    ends = [(one.podgroup, one.ends_s) for one in ahead.running]
    groups = {g.uid: g for g in snapshot.podgroups}
    moves = MovesOf(session)
    members: dict[str, list[str]] = {uid: [] for uid in groups}
    alone = []
    for t in snapshot.tasks:
        uid = f"{t.namespace}/{t.podgroup}"
        members[uid].append(t.uid) if uid in members else alone.append(t.uid)

    def of_group(uid: str) -> Explanation:
        about = _About(groups[uid].queue, members[uid], starts.get(uid), order.get(uid))
        return _of_group(session, plan, uid, about, ends, moves)

    if full is not None:
        out = [of_group(full)] if full in groups else []
        return out + [
            _explanation(session, plan, ends, t.uid, "task")
            for t in snapshot.tasks
            if t.uid == full
        ]
    rejected = plan.rejections
    waiting = [u for u in groups if u in rejected or any(t in rejected for t in members[u])]
    lone = [_explanation(session, plan, ends, t, "task") for t in alone if t in rejected]
    return [of_group(u) for u in waiting] + lone


def explain_group(
    snapshot: Snapshot,
    cluster: Cluster,
    podgroup: str,
    tasks: Sequence[str],
    learnt: LearntRunTimes | None,
    start_of: Callable[[Callable[[], ExpectedStart | None]], ExpectedStart | None],
    shells: Mapping[str, Any],
) -> Explanation:
    """Explain one podgroup as `explain_snapshot` does, but read the tasks and nodes from `cluster`,
    which cannot be used afterwards.

    `tasks`: the podgroup's tasks in order. `snapshot`: everything that is not in the columns.
    `start_of` returns the podgroup's expected start. It is passed a function that computes the
    start. It should call this function only if it does not know the start already, because the
    computation may cost far more than the rest of the explanation.
    """
    planner = Planner(learnt)
    session, plan = decide(snapshot, shells={**shells, **lent(planner)}, cluster=cluster)
    view = ClusterSnapshot(session, learnt)

    def work_out() -> ExpectedStart | None:
        start = planner.expect(view, podgroup)
        return None if start is None else _expected(start, session.now)

    start = start_of(work_out)
    if start is not None:
        in_s = start.at_s - session.now
        start = structs.replace(start, in_s=in_s) if in_s > 0 else None
    index = cluster.job_index.get(podgroup)
    queue = "" if index is None else cluster.jobs[index].spec.queue
    about = _About(queue, tasks, start, waiting_order(session).get(podgroup))
    ends = [(ending.job.uid, ending.end_s) for ending in view.endings]
    ends += [(job.uid, None) for job in view.endless]
    return _of_group(session, plan, podgroup, about, ends, MovesOf(session))


def decide_and_expect(
    snapshot: Snapshot, most: int | None = None, learnt: LearntRunTimes | None = None
) -> Expectation:
    """Run a cycle on a snapshot, and compute the expected starts of the first `most` podgroups that
    still wait.
    """
    session, plan, ahead = _decided(snapshot, most, learnt)
    return Expectation(plan, _starts(ahead), waiting_order(session))


def _decided(
    snapshot: Snapshot, most: int | None, learnt: LearntRunTimes | None
) -> tuple[Session, Plan, TimePlan]:
    planner = Planner(learnt)
    session, plan = decide(snapshot, shells=lent(planner))
    return session, plan, planner.plan(session, most)


def _starts(ahead: TimePlan) -> dict[str, ExpectedStart]:
    return {
        one.podgroup: _expected(one, ahead.now)
        for one in ahead.starts
        # plans do not know the reasons for which other podgroups were refused
        if one.at_s > ahead.now
    }


def plan_snapshot(
    snapshot: Snapshot, most: int | None = None, learnt: LearntRunTimes | None = None
) -> TimePlan:
    """Plan when waiting work starts, for the first `most` podgroups. This includes podgroups that
    can start now.
    """
    nothing = msgspec.structs.replace(snapshot.config, actions=())
    idle = msgspec.structs.replace(snapshot, config=nothing)
    planner = Planner(learnt)
    return planner.plan(decide(idle, shells=lent(planner), explains=False)[0], most)


def names(snapshot: Snapshot) -> set[str]:
    """Return the names that `explain_snapshot` accepts."""
    return {g.uid for g in snapshot.podgroups} | {t.uid for t in snapshot.tasks}


class _About(NamedTuple):
    """A podgroup's queue, tasks, expected start (None if unknown) and position in its queue."""

    queue: str
    tasks: Sequence[str]
    start: ExpectedStart | None
    position: int | None


def _of_group(
    session: Session, plan: Plan, uid: str, about: _About, ends: Ends, moves: MovesOf
) -> Explanation:
    waiting = [t for t in about.tasks if t in plan.rejections]
    found = moves.of(uid) if waiting else None
    return structs.replace(
        _explanation(session, plan, ends, uid, "podgroup"),
        expected_start=UNSET if about.start is None else about.start,
        queue=about.queue,
        position=UNSET if about.position is None else about.position,
        tasks=_alike(plan, waiting),
        moves=UNSET if found is None else found,
    )


def _explanation(session: Session, plan: Plan, ends: Ends, uid: str, kind: str) -> Explanation:
    found = plan.rejections.get(uid, ())
    if kind == "podgroup":
        main = plan.main.get(uid, ())
    else:
        main = main_reasons((), [WaitingTasks(found)]) if found else ()
    held = holders(session, uid, main, ends)
    node = plan.binds.get(uid)
    if kind == "task" and node is None:
        tasks = session.snapshot.tasks
        node = next((t.node for t in tasks if t.uid == uid and t.node), None)
    return Explanation(
        snapshot=session.snapshot.name,
        name=uid,
        kind=kind,
        waits=bool(found),
        reasons=reasons_of(found),
        because=reasons_of(main),
        holders=UNSET if held is None else held,
        node=UNSET if node is None else node,
        evicted=True if uid in plan.evicted else UNSET,
    )


def _expected(start: PlannedStart, now: float) -> ExpectedStart:
    return ExpectedStart(
        at_s=start.at_s,
        in_s=start.at_s - now,
        after_tasks=start.after_tasks,
        basis=start.basis,
        is_promised=start.is_promised,
        earliest_s=start.earliest_s,
    )


def reasons_of(found: Sequence[Rejection]) -> list[Reason]:
    """Return rejections in words, each with the change that would help."""
    return [
        Reason(
            reason=r.reason,
            count=r.count,
            detail=dict(r.detail),
            sentence=sentence(r),
            change=remedy(r),
            plugin=r.plugin,
        )
        for r in found
    ]


def _alike(plan: Plan, tasks: Sequence[str]) -> list[AlikeTasks]:
    """Group the tasks that were turned away for the same reasons."""
    together: list[tuple[list[str], tuple[Rejection, ...]]] = []
    for t in tasks:
        found = plan.rejections[t]
        names = next((n for n, known in together if known == found), None)
        if names is None:
            together.append(([t], found))
        else:
            names.append(t)
    return [AlikeTasks(names=names, reasons=reasons_of(found)) for names, found in together]
