"""One cycle: opens a session, runs the actions in order, closes the session, and returns the
plan.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache, partial
from importlib import import_module
from typing import Any, TypeVar

from phalanx.model.garbage import uncollected
from phalanx.scheduler.cycle import jobs as j
from phalanx.scheduler.cycle.accepted import Accepted, strange
from phalanx.scheduler.cycle.cluster import Cluster
from phalanx.scheduler.cycle.config import ACTIONS
from phalanx.scheduler.cycle.explain import Reasons, explain
from phalanx.scheduler.cycle.jobs import Job
from phalanx.scheduler.cycle.moves import resume
from phalanx.scheduler.cycle.plan import Choice, Plan, Timing
from phalanx.scheduler.cycle.registry import known_plugins, make_plugin
from phalanx.scheduler.cycle.session import Session
from phalanx.scheduler.cycle.specs import Snapshot
from phalanx.scheduler.cycle.stopwatch import Clock, Stopwatch

T = TypeVar("T")


def run_cycle(
    snapshot: Snapshot,
    *,
    clock: Clock | None = None,
    times_hooks: bool = True,
    shells: Mapping[str, Any] | None = None,
    cluster: Cluster | None = None,
    explains: bool = True,
) -> Plan:
    """Run one cycle and return its plan. The same snapshot gives the same plan.

    `clock` (in seconds) measures the parts of the cycle, and the plugins' hooks unless
    `times_hooks` is False. `shells`: connections to the outside for plugins that need them, such as
    the extender's sender. `cluster`: the columns kept from an earlier cycle (see `kept`), used in
    place of columns made from the snapshot. If `explains` is False, the plan has only those
    rejections that plugins gave during the cycle.
    """
    with uncollected():
        session, plan = decide(
            snapshot, clock=clock, times_hooks=times_hooks, shells=shells, cluster=cluster,
            explains=explains,
        )  # fmt: skip
        session.close()
        del session
    return plan


def decide(
    snapshot: Snapshot,
    *,
    clock: Clock | None = None,
    times_hooks: bool = True,
    shells: Mapping[str, Any] | None = None,
    cluster: Cluster | None = None,
    explains: bool = True,
) -> tuple[Session, Plan]:
    """Run one cycle like `run_cycle`. Returns the session with its plan, so that callers can ask
    the session for more. `times_hooks`: whether the clock also times the hooks. `explains`: whether
    the plan says why jobs wait.
    """
    with uncollected():
        watch = None if clock is None else Stopwatch(clock)
        return _decide(snapshot, watch, times_hooks, shells, cluster, explains)


def _decide(
    snapshot: Snapshot,
    watch: Stopwatch | None,
    times_hooks: bool,
    shells: Mapping[str, Any] | None,
    cluster: Cluster | None,
    explains: bool,
) -> tuple[Session, Plan]:
    def timed(part: str, name: str, work: Callable[[], T]) -> T:
        return work() if watch is None else watch.time(part, name, work)

    of_hooks = watch if times_hooks else None
    session = timed(
        "session", "open", lambda: Session(snapshot, shells, cluster, of_hooks, explains=explains)
    )
    for tier in snapshot.config.tiers:
        for option in tier:
            plugin = make_plugin(option.name, option.arguments)
            _warn_of_strange(session, option.name, option.arguments, known_plugins()[option.name])
            timed("plugin", option.name, partial(plugin.open, session))
    if session.cluster.homes:
        resume(session)
    for name in snapshot.config.actions:
        _warn_of_strange(session, name, snapshot.config.arguments_of(name), ACTIONS[name])
        timed("action", name, partial(_action(name).run, session))
    session.hooks.notify("closing")
    why = Reasons({uid: tuple(found) for uid, found in session.refusals.items()}, {})
    if explains:
        why = timed("session", "explain", lambda: explain(session))
    return session, _plan(session, why, watch.timings() if watch is not None else ())


@cache
def _action(name: str) -> Any:
    return import_module(f"phalanx.scheduler.actions.{name}")


def _warn_of_strange(
    session: Session, name: str, arguments: Mapping[str, Any], accepted: Accepted | None
) -> None:
    for text in strange(name, arguments, accepted) if accepted is not None else ():
        session.warn(text)


def _plan(session: Session, why: Reasons, timings: tuple[Timing, ...]) -> Plan:
    cluster = session.cluster
    uids, names = cluster.task_uid, cluster.node_names
    promised = sorted(
        t
        for job in cluster.jobs
        if job.counts[j.PIPELINED]
        for t in job.tasks
        if cluster.status[t] == j.PIPELINED
    )
    phases = {job.uid: phase_of(session, job) for job in cluster.jobs}
    phases.update({g.uid: g.phase for g in cluster.strays})
    return Plan(
        binds={uids[t]: names[n] for t, n in session.binds.items()},
        evictions=tuple(sorted(session.evictions.values(), key=lambda one: one.task)),
        pipelined={uids[t]: names[cluster.node_of[t]] for t in promised},
        phases=dict(sorted(phases.items())),
        rejections=why.rejections,
        main=why.main,
        choices=_choices(session),
        allocated_hypernodes={
            job.uid: job.allocated_hypernode for job in cluster.jobs if job.allocated_hypernode
        },
        nominations=_nominations(session, promised),
        homes=_homes(session),
        held=tuple(sorted(uids[t] for t in session.homes if cluster.status[t] == j.RELEASING)),
        moves=tuple(session.moves),
        timings=timings,
        warnings=tuple(session.warnings),
        acted=tuple(session.acted),
    )


def _choices(session: Session) -> dict[str, Choice]:
    """Return, by podgroup, why its first task goes to its node. Podgroups that lost their places
    again are left out.
    """
    cluster, binds = session.cluster, session.binds
    return {
        uid: choice
        for uid, choice in session.choices.items()
        if any(t in binds for t in cluster.jobs[cluster.job_index[uid]].tasks)
    }


def _nominations(session: Session, promised: list[int]) -> dict[str, str]:
    """Return the nodes that the next cycle tries first, by task: the promised places on nodes where
    evictions made room, and the promised places of entitled jobs.
    """
    cluster = session.cluster
    freed = {cluster.node_of[t] for t in session.evictions}
    return {
        cluster.task_uid[t]: cluster.node_names[cluster.node_of[t]]
        for t in promised
        if cluster.node_of[t] in freed or t in session.kept_places
    }


def _homes(session: Session) -> dict[str, str]:
    cluster = session.cluster
    return {
        cluster.task_uid[t]: cluster.node_names[node]
        for t, node in sorted(session.homes.items())
        if t not in session.binds
    }


def phase_of(session: Session, job: Job) -> str:
    """Return the podgroup's phase after the cycle. Source: Volcano's getPodGroupPhase."""
    c = job.counts
    done = c[j.SUCCEEDED] + c[j.FAILED]
    node_of, status = session.cluster.node_of, session.cluster.status
    # An ending task still holds its place on its node.
    leaving = 0
    if c[j.RELEASING]:
        leaving = sum(status[t] == j.RELEASING and node_of[t] >= 0 for t in job.tasks)
    scheduled = c[j.RUNNING] + c[j.BOUND] + done + leaving
    is_only_leaving = leaving and scheduled >= job.min_available and not _has_work_to_place(job)
    is_short = 0 < c[j.RUNNING] < job.min_available and not job.is_ready()
    if is_short and not is_only_leaving and not session.job_ready(job):
        return "Unknown"
    if scheduled >= job.min_available:
        return "Completed" if scheduled == done else "Running"
    return "Inqueue" if job.phase == "Inqueue" else "Pending"


def _has_work_to_place(job: Job) -> bool:
    c = job.counts
    return bool(c[j.PENDING] + c[j.IDLE_PENDING] + c[j.PIPELINED])
