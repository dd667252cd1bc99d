"""Collects typed reasons why tasks and gangs were not placed, and puts them into sentences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from phalanx.scheduler.cycle import jobs as j
from phalanx.scheduler.cycle.apart import apart_over, places_over
from phalanx.scheduler.cycle.attempts import Attempt
from phalanx.scheduler.cycle.equivalence_class import EquivalenceClass
from phalanx.scheduler.cycle.jobs import Job
from phalanx.scheduler.cycle.main_reasons import WaitingTasks, main_reasons
from phalanx.scheduler.cycle.node_counts import NodeCounts, count_nodes
from phalanx.scheduler.cycle.plan import Rejection
from phalanx.scheduler.cycle.session import Session
from phalanx.scheduler.cycle.specs import SLURM_NOTE
from phalanx.scheduler.cycle.wording import written

REASONS: dict[str, str] = {
    "gang-tasks-missing": "the gang has {tasks} of its {minimum} tasks: submit {count} more",
    "gang-role-short": "a role of the gang has fewer tasks than its minimum {minimums}",
    "gang-subgroups-short": "the gang has fewer subgroups than its minimum {minimums}",
    "gang-not-whole": "{placed} of {minimum} tasks would find room, so none starts",
    "gang-member": "task {task} of the gang was the first without room",
    "gang-role": "role {role} lacks room for {count} of the tasks that it needs",
    "gang-subgroup": "subgroups {policy} lack room for {count} of those needed",
    "gang-promised": "{count} of {minimum} tasks are promised room once evictions end",
    "not-tried": "no action tried to place it in this cycle",
    "not-let-in": "it has not been let into its queue",
    "behind": "{count} are ahead of it in queue {queue}",
    "podgroup-missing": "there is no podgroup {podgroup}",
    "queue-missing": "there is no queue {queue}",
    "queue-closed": "queue {queue} is not open",
    "queue-not-leaf": "queue {queue} has queues below it, and only those start work",
    "queue-tree": "the queues' parents are missing, form a cycle, or hold work themselves",
    "queue-quota": (
        "queue {queue} may hold {limit:g} {resource} and holds {used:g}; "
        "this asks for {asked:g} more"
    ),
    "queue-full": "its queue admits no more tasks like this",
    "queue-overused": "its queue holds all it deserves",
    "queue-capability": (
        "queue {queue} may use {limit:g} {resource} and uses {used:g}; this asks for {asked:g} more"
    ),
    "cluster-overcommitted": (
        "the cluster can promise {left:g} more {resource}; this asks for {asked:g}"
    ),
    "namespace-quota": "its namespace may use {limit:g} {resource}, and would use {would_use:g}",
    "user-jobs": "{who} may run {limit} jobs at a time, and {running} run",
    "user-limit": "{who} may use {limit:g} {resource}, and would use {would_use:g}",
    "resource": "{count} nodes lack {resource} (needs {asked:g}, most free {most:g})",
    "deserves-no-more": (
        "queue {queue} deserves {deserved:g} {resource} and holds {held:g}: "
        "it cannot reclaim {asked:g} more from other queues"
    ),
    "held-by-right": "no {resource} can be reclaimed from other queues: {queues}",
    "never-fits": "no node, even empty, has {asked:g} {resource} (largest {most:g})",
    "never-fits-there": (
        "no node that it may use, even empty, has {asked:g} {resource} (largest {most:g})"
    ),
    "gang-never-fits": (
        "its nodes, even empty, hold {most} of the {needed} tasks that it needs at once"
    ),
    "no-single-node": "none of {count} nodes has all of that at once",
    "slots": "{count} nodes have no slot for another task",
    "unschedulable": "{count} nodes are closed to new tasks",
    "labels": "{count} nodes lack the labels asked for: {labels}",
    "taints": "{count} nodes have a taint that it does not tolerate",
    "ports": "{count} nodes have a port in use that it needs",
    "pod-affinity": "{count} nodes are not near the tasks it must be near",
    "pod-anti-affinity": "{count} nodes are near tasks it must keep away from",
    "spread-label": "{count} nodes lack the label it spreads over",
    "spread": "{count} nodes would make its spread uneven",
    "node-group": "{count} nodes are not in a node group that its queue may use",
    "node-group-limit": "{count} nodes are in a group where its queue is at its limit",
    "revocable-zone": "{count} nodes are lent out at this time of day, or not for this task",
    "usage": "{count} nodes are busier than the threshold",
    "numa": "{count} nodes cannot hold it on the NUMA nodes its policy asks for",
    "devices": "{count} nodes have no device with the memory it needs",
    "gpu-memory": (
        "{count} nodes have no room on {cards} GPU{mode} (needs {asked:g} of {resource} on each, "
        "most free {most:g})"
    ),
    "cell": "{count} nodes are in no cell that queue {queue} may use: {why}",
    "cell-borrowed": "its cells are free, but opportunistic work holds GPUs there: {holders}",
    "cell-needed": (
        "queue {queue} is kept from evictions, so its jobs need cells of their own, "
        "and a priority of 0 or more"
    ),
    "gpu-type": "{count} nodes have no GPU of the type it asks for",
    "cpu-only": "{count} nodes are kept for work that asks for their GPUs",
    "tried": "{count} nodes were tried for it a moment ago without success",
    "rack": "{count} nodes are in other racks than the rest of its gang",
    "common-ports": "{count} nodes lack the ports that all nodes of its gang must have free",
    "proportion": "{count} nodes would keep too little cpu and memory for their scarce devices",
    "reserved": "{count} nodes are kept for work that was promised places there",
    "reserved-time": "{count} nodes are reserved for {reserved}, and {length}",
    "reservation-begins": "its reservation {reservation} begins at {at}",
    "reservation-over": "its reservation {reservation} is over, or was deleted",
    "reservation-not-its-own": "reservation {reservation} is for {owners}",
    "reservation-closed": "reservation {reservation} is a maintenance: nothing runs inside of it",
    "outside-reservation": (
        "{count} nodes are outside its reservation {reservation}, or without room in it"
    ),
    "license": (
        "{held} of {total} licenses of {license} are held by {holders}, and it asks for {asked}"
    ),
    "license-none": "it asks for {asked} licenses of {license}, and the cluster has {total}",
    "promised": "places are promised to it, in {in_s} at the latest",
    "no-room-yet": "all room is taken, or kept for work that was promised places",
    "extender": "{count} nodes were refused by the extender",
    "topology": "no network domain within its highest tier has room for the gang",
    "no-nodes": "there are no nodes",
    "waiting-for-release": "it is promised node {node} once evictions there end",
    "waiting-for-gang": "it could run on {node} once the rest of its gang has room",
    "fits-alone": "{count} nodes have room for it alone: its gang's reasons say why it waits",
}
"""The sentence for each reason. `count` and the rejection's details fill its placeholders."""
_OF_ALL = {
    "labels": "no node has the labels asked for: {labels}",
    "taints": "every node has a taint that it does not tolerate",
    "gpu-type": "no node has a GPU of the type it asks for",
    "unschedulable": "no node is open to new tasks",
}
"""The sentences for reasons for which every node was turned away."""

_APART = " on different {apart}"


class Reasons(NamedTuple):
    """The reasons why each task, and each podgroup with waiting tasks, was not placed. `main`: the
    main reasons of podgroups.
    """

    rejections: dict[str, tuple[Rejection, ...]]
    main: dict[str, tuple[Rejection, ...]]


def explain(session: Session) -> Reasons:
    """Return the reasons why waiting work was not placed.

    All tasks of one class in a job get the same reasons. For jobs with tasks of the same class, the
    nodes that turn such a task away are counted only once.
    """
    out: dict[str, tuple[Rejection, ...]] = {}
    main: dict[str, tuple[Rejection, ...]] = {}
    cluster = session.cluster
    nodes: dict[tuple[int, int], NodeCounts] = {}
    ahead: dict[int, int] = {}
    for group in cluster.strays:
        lost = Rejection(reason="queue-missing", detail={"queue": group.queue})
        out[group.uid] = main[group.uid] = (lost,)
    for t, index in enumerate(cluster.job_of) if -1 in cluster.job_of else ():
        if index < 0 and cluster.status[t] == j.PENDING:
            uid = f"{cluster.tasks[t].namespace}/{cluster.tasks[t].podgroup}"
            lost = Rejection(reason="podgroup-missing", detail={"podgroup": uid})
            out[cluster.task_uid[t]] = out.get(uid, (lost,))
    for job in sorted(filter(_waits, cluster.jobs), key=session.job_key):
        of_tasks: dict[str, tuple[Rejection, ...]] = {}
        kinds = _of_tasks(session, job, nodes, of_tasks)
        own = list(session.refusals.get(job.uid, ()))
        position = ahead.get(job.queue, 0)
        ahead[job.queue] = position + 1
        own += _of_job(session, job, position, kinds)
        out[job.uid] = tuple(own)
        out.update(of_tasks)
        waiting = [WaitingTasks(one.reasons, one.tasks, one.needed) for one in kinds]
        main[job.uid] = main_reasons(own, waiting)
    return Reasons(out, main)


class _Kind(NamedTuple):
    """The waiting tasks of a job that are of one class: the reasons why they wait, and how many of
    them the job's minimum needs.
    """

    eq_class: EquivalenceClass
    reasons: tuple[Rejection, ...]
    tasks: int
    needed: int
    nodes: NodeCounts | None


def _of_tasks(
    session: Session,
    job: Job,
    nodes: dict[tuple[int, int], NodeCounts],
    out: dict[str, tuple[Rejection, ...]],
) -> list[_Kind]:
    """Write to `out` why each of the job's tasks waits. Returns the same reasons by class of
    tasks.
    """
    cluster = session.cluster
    moved: list[_Kind] = []
    by_class: dict[int, tuple[EquivalenceClass, tuple[Rejection, ...], NodeCounts]] = {}
    counts: dict[int, int] = {}
    for t in job.tasks:
        status = cluster.status[t]
        if status in (j.PIPELINED, j.ALLOCATED):
            reason = "waiting-for-release" if status == j.PIPELINED else "waiting-for-gang"
            detail = {"node": cluster.node_names[cluster.node_of[t]]}
            out[cluster.task_uid[t]] = (Rejection(reason=reason, detail=detail),)
            if not moved:
                moved.append(_Kind(cluster.eq_class[t], out[cluster.task_uid[t]], 1, 1, None))
        elif status == j.PENDING:
            eq_class = cluster.eq_class[t]
            found = by_class.get(eq_class.index)
            if found is None:
                counted = _counted(session, job, t, nodes)
                reasons = _of_class(session, job, eq_class, counted)
                found = by_class[eq_class.index] = (eq_class, reasons, counted)
            counts[eq_class.index] = counts.get(eq_class.index, 0) + 1
            out[cluster.task_uid[t]] = found[1]
    if not by_class:
        return moved if len(job.tasks) == 1 or session.job_ready(job) else []
    spare = max(sum(counts.values()) - max(job.shortfall(), 0), 0)
    return [
        _Kind(eq_class, reasons, counts[at], _needed(job, eq_class, counts[at], spare), counted)
        for at, (eq_class, reasons, counted) in by_class.items()
    ]


def _waits(job: Job) -> bool:
    c = job.counts
    some = c[j.PENDING] + c[j.PIPELINED] + c[j.ALLOCATED] > 0
    return some or (job.is_pending() and not job.is_ready())


def _needed(job: Job, eq_class: EquivalenceClass, count: int, spare: int) -> int:
    """Return how many of the `count` waiting tasks of a class the job needs for its minimum.
    `spare`: the number of waiting tasks of all classes that the job does not need for its minimum.
    """
    role = eq_class.shape.role
    least = job.role_min.get(role, 0) if job.roles_matter() else 0
    of_role = least - job.role_count(role, pipelined=True)
    others = 0 if (states := job.role_counts.get(role)) is None else states[j.PENDING] - count
    return max(count - spare, min(of_role - others, count), 0)


def _counted(
    session: Session, job: Job, t: int, nodes: dict[tuple[int, int], NodeCounts]
) -> NodeCounts:
    scope = session.placer.rules()[2]
    eq_class = session.cluster.eq_class[t]
    key = session.placer.key(eq_class, job) if scope != "task" else (eq_class.index, job.index)
    found = nodes.get(key)
    if found is None:
        found = nodes[key] = count_nodes(session, session.placer.ask(t))
    return found


def _of_job(session: Session, job: Job, position: int, kinds: Sequence[_Kind]) -> list[Rejection]:
    out = [one for kind in kinds if (one := _too_many(job, kind)) is not None]
    if job.is_pending():
        out.append(Rejection(reason="not-let-in"))
    elif not session.job_ready(job) and job.min_available > 0:
        out += _of_gang(session, job, kinds)
    if position:
        queue = session.cluster.queues[job.queue].name
        out.append(Rejection(reason="behind", count=position, detail={"queue": queue}))
    return out


def _too_many(job: Job, kind: _Kind) -> Rejection | None:
    """Return the rejection of a gang that could not be placed even on empty nodes.

    Such a gang needs more tasks of the class than all nodes that it may use could hold together.
    Returns None for any other gang.
    """
    nodes = kind.nodes
    if nodes is None or not 0 < nodes.most < kind.needed:
        return None
    detail: dict[str, Any] = {
        "most": nodes.most,
        "needed": kind.needed,
        **_terms(job, kind.eq_class),
    }
    return Rejection(reason="gang-never-fits", count=kind.needed - nodes.most, detail=detail)


def _of_gang(session: Session, job: Job, kinds: Sequence[_Kind]) -> list[Rejection]:
    """Return why the gang as a whole did not start: how many members found room when it was tried,
    and the first member without room.
    """
    if job.counts[j.PIPELINED] and session.job_pipelined(job):
        detail = {"minimum": job.min_available}
        return [Rejection(reason="gang-promised", count=job.counts[j.PIPELINED], detail=detail)]
    attempt = session.attempts.get(job.uid)
    if attempt is None:
        return [] if job.uid in session.refusals else [Rejection(reason="not-tried")]
    bound = job.is_hard() and job.has_topology()
    # the reasons of its task are enough
    if len(job.tasks) == 1 and attempt.failed >= 0 and not bound:
        return _quotas(session, job, attempt, kinds)
    out = []
    if attempt.placed < job.min_available and (attempt.failed >= 0 or not bound):
        out.append(_not_whole(session, job, attempt, kinds))
    if len(job.role_counts) > 1:
        for role, lack in attempt.roles.items():
            out.append(
                Rejection(
                    reason="gang-role", count=lack, detail={"role": role, **_terms(job, None)}
                )
            )
    for policy, lack in attempt.subgroups.items():
        out.append(Rejection(reason="gang-subgroup", count=lack, detail={"policy": policy}))
    if attempt.failed >= 0 and len(job.tasks) > 1:
        task = session.cluster.task_uid[attempt.failed]
        out.append(Rejection(reason="gang-member", detail={"task": task}))
    if bound:
        out.append(Rejection(reason="topology"))
    return [*out, *_quotas(session, job, attempt, kinds)]


def _quotas(
    session: Session, job: Job, attempt: Attempt, kinds: Sequence[_Kind]
) -> list[Rejection]:
    """Return the rejections by the quotas that stopped the gang. They name the request of the whole
    gang, while those in `attempt` name only the request of the task at which the attempt stopped.
    """
    if not attempt.why:
        return []
    found = [
        one
        for kind in kinds
        if session.room(job, kind.eq_class, kind.needed) < kind.needed
        for one in session.shortages(job, kind.eq_class, kind.needed)
    ]
    return found or list(attempt.why)


def _not_whole(session: Session, job: Job, attempt: Attempt, kinds: Sequence[_Kind]) -> Rejection:
    """Return the rejection that says how many members found room. It also says how much of the
    scarcest resource each further member requests.
    """
    detail: dict[str, Any] = {"placed": attempt.placed, "minimum": job.min_available}
    cluster = session.cluster
    failed = cluster.eq_class[attempt.failed] if attempt.failed >= 0 else None
    scarce = next((k.nodes.scarce for k in kinds if k.eq_class is failed and k.nodes), "")
    detail |= _terms(job, failed)
    if failed is not None and scarce and not attempt.why:
        r = cluster.dims.index[scarce]
        detail |= {"resource": scarce, "each": cluster.dims.written(r, float(failed.request[r]))}
    short = job.min_available - attempt.placed
    return Rejection(reason="gang-not-whole", count=short, detail=detail)


def _terms(job: Job, eq_class: EquivalenceClass | None) -> dict[str, Any]:
    """Return the details that say whether the gang's minimum is fixed, as for jobs of `sbatch`, and
    over which places its tasks must be spread.
    """
    is_fixed = any(key.startswith(SLURM_NOTE) for key, _ in job.spec.annotations)
    found: dict[str, Any] = {"fixed_minimum": True} if is_fixed else {}
    over = "" if eq_class is None else apart_over(eq_class)
    return found | ({"apart": places_over(over)} if over else {})


def _of_class(
    session: Session, job: Job, eq_class: EquivalenceClass, found: NodeCounts
) -> tuple[Rejection, ...]:
    out = []
    queue = session.cluster.queues[job.queue]
    if queue.state != "Open":
        out.append(Rejection(reason="queue-closed", detail={"queue": queue.name}))
    else:
        named = session.hooks.named("overused")
        who = next((plugin for plugin, fn in named if fn(job.queue)), None)
        if who is not None:
            out.append(Rejection(reason="queue-overused", plugin=who))
    if session.room(job, eq_class, 1) < 1:
        out += [r for r in session.shortages(job, eq_class) if r not in out]
    if not found.room:
        taken = [] if out else _nothing_taken(session, job, eq_class, found.away)
        return (*out, *found.away, *taken)
    if out:  # some nodes have room, so the other nodes are not the reason
        return tuple(out)
    return (*found.away, Rejection(reason="fits-alone", count=found.room))


def _nothing_taken(
    session: Session, job: Job, eq_class: EquivalenceClass, away: Sequence[Rejection]
) -> list[Rejection]:
    """Return the reasons that plugins give why reclaim took no room from other queues for a task.

    `away`: why nodes turned the task away. Plugins are asked about the resources of which, by these
    reasons, every node has too little.
    """
    if "reclaim" not in session.config.actions:
        return []
    lacking = [
        r.detail["resource"] for r in away if r.reason == "resource" and r.count == r.detail["of"]
    ]
    needed = min(max(job.shortfall(), 1), max(job.counts[j.PENDING], 1))
    return [
        msgspec.structs.replace(r, plugin=plugin)
        for plugin, fn in session.hooks.named("nothing_taken")
        for r in fn(job, eq_class, needed, lacking)
    ]


def sentence(rejection: Rejection) -> str:
    """Return the sentence for one rejection."""
    template = _template(rejection)
    if template is None:
        return f"{rejection.reason} ({rejection.count})"
    try:
        return written(template, {**rejection.detail, "count": rejection.count})
    except (KeyError, ValueError):
        return f"{rejection.reason} ({rejection.count}): {dict(rejection.detail)}"


def _template(rejection: Rejection) -> str | None:
    detail, reason = rejection.detail, rejection.reason
    template = REASONS.get(reason)
    if template is None:
        return None
    if rejection.count == detail.get("of"):
        template = _OF_ALL.get(reason, template)
    if reason == "gang-not-whole" and "each" in detail:
        need = "needs" if rejection.count == 1 else "need"
        template += f": {{count}} more {need} {{each:g}} {{resource}}"
        template += " each" if rejection.count > 1 else ""
    if reason.startswith("gang-") and "apart" in detail:
        for said in ("would find room", "hold {most} of the {needed} tasks"):
            template = template.replace(said, said + _APART)
    if "in_gang" in detail:
        template = "for {tasks} of its {in_gang} tasks, " + template
    return template


def as_data(found: Mapping[str, Sequence[Rejection]]) -> dict[str, list[dict[str, Any]]]:
    """Convert rejections to plain lists and mappings, for JSON."""
    return {
        name: [{"reason": r.reason, "count": r.count, "detail": dict(r.detail)} for r in listed]
        for name, listed in found.items()
    }
