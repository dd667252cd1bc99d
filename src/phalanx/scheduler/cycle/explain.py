"""Typed reasons why tasks and gangs were not placed, and the sentences that state them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
import numpy as np

from phalanx.scheduler.cycle import jobs as j
from phalanx.scheduler.cycle.amounts import Flags
from phalanx.scheduler.cycle.equivalence_class import EquivalenceClass
from phalanx.scheduler.cycle.jobs import Job
from phalanx.scheduler.cycle.plan import Rejection
from phalanx.scheduler.cycle.rows import Ask, Rows
from phalanx.scheduler.cycle.session import Session
from phalanx.scheduler.cycle.specs import Match
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
    "user-limit": "{who} may use {limit:g} {resource}, and would use {would_use:g}",
    "resource": "{count} nodes lack {resource} (needs {asked:g}, most free {most:g})",
    "deserves-no-more": (
        "queue {queue} deserves {deserved:g} {resource} and holds {held:g}: "
        "it cannot reclaim {asked:g} more from other queues"
    ),
    "held-by-right": "no {resource} can be reclaimed from other queues: {queues}",
    "never-fits": "no node, even empty, has {asked:g} {resource} (largest {most:g})",
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
        "{held} of {total} licences of {license} are held by {holders}, and it asks for {asked}"
    ),
    "license-none": "it asks for {asked} licences of {license}, and the cluster has {total}",
    "promised": "places are promised to it, in {in_s} at the latest",
    "no-room-yet": "all room is taken, or kept for work that was promised places",
    "extender": "{count} nodes were refused by the extender",
    "topology": "no network domain within its highest tier has room for the gang",
    "no-nodes": "there are no nodes",
    "waiting-for-release": "it is promised node {node} once evictions there end",
    "waiting-for-gang": "it could run on {node} once the rest of its gang has room",
    "fits-alone": "{count} nodes have room for it alone: its gang's reasons say why it waits",
}
"""The sentence for each reason; `count` and the rejection's detail fill its placeholders."""
OF_QUOTAS = frozenset(
    {
        *("queue-missing", "queue-closed", "queue-not-leaf", "queue-tree", "queue-quota"),
        *("queue-capability", "namespace-quota", "user-limit", "license", "license-none"),
    }
)
"""Reasons that keep a task waiting even where there is room."""
OF_ITSELF = frozenset(
    {
        *("podgroup-missing", "gang-tasks-missing", "gang-role-short", "gang-subgroups-short"),
        *("reservation-begins", "reservation-over", "reservation-not-its-own"),
        *("reservation-closed", "promised", "cluster-overcommitted"),
    }
)
"""Reasons that keep a podgroup waiting however much room there is now."""
OF_OTHERS = frozenset({"fits-alone", "waiting-for-gang"})
"""Reasons given to tasks that could start but for their gang or for evictions."""
HINTS = frozenset(
    {
        *("behind", "gang-member", "gang-role", "gang-subgroup"),
        *("not-let-in", "not-tried", "tried"),
    }
)
"""Reasons that explain nothing alone; they are left out where another reason is given."""
MAIN = 3
"""The most rejections that count as the main ones."""


def rejections(session: Session) -> dict[str, tuple[Rejection, ...]]:
    """Return why each task, and each podgroup with waiting tasks, was not placed.

    Tasks of one class and job share one answer. Jobs whose tasks are of one class share its counts
    of nodes.
    """
    out: dict[str, tuple[Rejection, ...]] = {}
    cluster = session.cluster
    nodes: dict[tuple[int, int], _Nodes] = {}
    ahead: dict[int, int] = {}
    for group in cluster.strays:
        out[group.uid] = (Rejection(reason="queue-missing", detail={"queue": group.queue}),)
    for t, index in enumerate(cluster.job_of) if -1 in cluster.job_of else ():
        if index < 0 and cluster.status[t] == j.PENDING:
            uid = f"{cluster.tasks[t].namespace}/{cluster.tasks[t].podgroup}"
            lost = Rejection(reason="podgroup-missing", detail={"podgroup": uid})
            out[cluster.task_uid[t]] = out.get(uid, (lost,))
    for job in sorted(filter(_waits, cluster.jobs), key=session.job_key):
        own = list(session.refusals.get(job.uid, ()))
        position = ahead.get(job.queue, 0)
        ahead[job.queue] = position + 1
        own += _of_job(session, job, position)
        out[job.uid] = tuple(own)
        by_class: dict[int, tuple[Rejection, ...]] = {}
        for t in job.tasks:
            status = cluster.status[t]
            if status in (j.PIPELINED, j.ALLOCATED):
                reason = "waiting-for-release" if status == j.PIPELINED else "waiting-for-gang"
                detail = {"node": cluster.node_names[cluster.node_of[t]]}
                out[cluster.task_uid[t]] = (Rejection(reason=reason, detail=detail),)
            elif status == j.PENDING:
                eq_class = cluster.eq_class[t]
                answer = by_class.get(eq_class.index)
                if answer is None:
                    answer = by_class[eq_class.index] = _of_class(session, job, t, eq_class, nodes)
                out[cluster.task_uid[t]] = answer
    return out


def _waits(job: Job) -> bool:
    c = job.counts
    some = c[j.PENDING] + c[j.PIPELINED] + c[j.ALLOCATED] > 0
    return some or (job.is_pending() and not job.is_ready())


def _of_job(session: Session, job: Job, position: int) -> list[Rejection]:
    out = []
    if job.is_pending():
        out.append(Rejection(reason="not-let-in"))
    elif not session.job_ready(job) and job.min_available > 0:
        out += _of_gang(session, job)
    if position:
        queue = session.cluster.queues[job.queue].name
        out.append(Rejection(reason="behind", count=position, detail={"queue": queue}))
    return out


def _of_gang(session: Session, job: Job) -> list[Rejection]:
    """Return how many members of the gang found room when it was tried, and which was the first
    without.
    """
    if job.counts[j.PIPELINED] and session.job_pipelined(job):
        detail = {"minimum": job.min_available}
        return [Rejection(reason="gang-promised", count=job.counts[j.PIPELINED], detail=detail)]
    attempt = session.attempts.get(job.uid)
    if attempt is None:
        return [] if job.uid in session.refusals else [Rejection(reason="not-tried")]
    bound = job.is_hard() and job.has_topology()
    if len(job.tasks) == 1 and attempt.failed >= 0 and not bound:  # its task's reasons suffice
        return list(attempt.why)
    out = []
    if attempt.placed < job.min_available and (attempt.failed >= 0 or not bound):
        detail = {"placed": attempt.placed, "minimum": job.min_available}
        short = job.min_available - attempt.placed
        out.append(Rejection(reason="gang-not-whole", count=short, detail=detail))
    for role, lack in attempt.roles.items():
        out.append(Rejection(reason="gang-role", count=lack, detail={"role": role}))
    for policy, lack in attempt.subgroups.items():
        out.append(Rejection(reason="gang-subgroup", count=lack, detail={"policy": policy}))
    if attempt.failed >= 0 and len(job.tasks) > 1:
        task = session.cluster.task_uid[attempt.failed]
        out.append(Rejection(reason="gang-member", detail={"task": task}))
    if bound:
        out.append(Rejection(reason="topology"))
    return [*out, *attempt.why]


def _of_class(
    session: Session,
    job: Job,
    t: int,
    eq_class: EquivalenceClass,
    nodes: dict[tuple[int, int], _Nodes],
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
    scope = session.placer.rules()[2]
    key = (eq_class.index, {"": -1, "queue": job.queue}.get(scope, job.index + 1_000_000))
    found = nodes.get(key)
    if found is None:
        found = nodes[key] = _of_nodes(session, session.placer.ask(t))
    if not found.room:
        taken = [] if out else _nothing_taken(session, job, eq_class, found.away)
        return (*out, *found.away, *taken)
    if out:  # some nodes have room, so the others are not the reason
        return tuple(out)
    return (*found.away, Rejection(reason="fits-alone", count=found.room))


def _nothing_taken(
    session: Session, job: Job, eq_class: EquivalenceClass, away: Sequence[Rejection]
) -> list[Rejection]:
    """Return why reclaim has not made room for a task where other queues hold what no node has
    left.
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


class _Nodes(NamedTuple):
    """The reasons why nodes were turned away, and how many nodes have room."""

    away: tuple[Rejection, ...]
    room: int = 0


def _of_nodes(session: Session, ask: Ask) -> _Nodes:
    """Count the nodes that each filter alone would turn away, then those that lack each
    resource."""
    cluster = session.cluster
    n = len(cluster.nodes)
    if n == 0:
        return _Nodes((Rejection(reason="no-nodes"),))
    rows = Rows(cluster, np.arange(n))
    out = []
    left = np.ones(n, dtype=np.bool_)
    for plugin, f in session.hooks.named("filter"):
        passes = f.passes(rows, ask)
        away = int((~passes).sum())
        more = f.detail(ask) if away and f.detail is not None else {}
        if away and more is not None:
            detail: dict[str, Any] = {"of": n, **more}
            if f.reason == "labels":
                detail["labels"] = _labels(session, ask)
            out.append(Rejection(reason=f.reason, count=away, detail=detail, plugin=plugin))
            left &= passes
    short = np.zeros(n, dtype=np.bool_)
    for r in ask.eq_class.asked:
        lacks = cluster.future[:, r] < ask.eq_class.request[r]
        short |= lacks
        if lacks.any() and cluster.dims.names[r] != "pods":
            out.append(_lack(session, ask, r, lacks))
    room = int((left & ~short).sum())
    if room == 0 and not any(x.count == n for x in out):
        out.append(Rejection(reason="no-single-node", count=n, detail={"of": n}))
    return _Nodes(tuple(out), room)


def _labels(session: Session, ask: Ask) -> str:
    """Describe each condition on labels, with how many nodes meet that condition alone."""
    shape, cluster = ask.eq_class.shape, session.cluster
    conditions = [
        (f"{key}={value}", Match(key=key, op="In", values=(value,)))
        for key, value in shape.selector
    ]
    for matches in shape.affinity.node_required if shape.affinity else ():
        conditions += [(" ".join((m.key, m.op, ",".join(m.values))).strip(), m) for m in matches]
    return ", ".join(
        f"{text} ({int(cluster.labelled(match).sum())} nodes have it)" for text, match in conditions
    )


def _lack(session: Session, ask: Ask, r: int, lacks: Flags) -> Rejection:
    cluster = session.cluster
    dims = cluster.dims
    asked = float(ask.eq_class.request[r])
    largest = float(cluster.capacity[:, r].max())
    never = largest < asked
    most = largest if never else max(0.0, float(cluster.future[lacks, r].max()))
    return Rejection(
        reason="never-fits" if never else "resource",
        count=int(lacks.sum()),
        detail={
            "resource": dims.names[r],
            "asked": dims.written(r, asked),
            "most": dims.written(r, most),
            "of": len(cluster.nodes),
        },
    )


def main_reasons(
    of_group: Sequence[Rejection], of_tasks: Sequence[Rejection] = ()
) -> tuple[Rejection, ...]:
    """Return the few rejections without which it would not wait, `MAIN` at most.

    Quotas come before nodes, and reasons that turned away all nodes before those that turned away
    some. `of_tasks` are the rejections of its first waiting task.
    """
    both = (*of_group, *of_tasks)
    for decisive in (OF_QUOTAS, OF_ITSELF):
        found = [one for one in both if one.reason in decisive]
        if found:
            return _first(found)
    if of_tasks and of_tasks[-1].reason not in OF_OTHERS:
        own = _telling(of_tasks)
        return _first([one for one in own if one.count == one.detail.get("of")] or own)
    return _first(_telling(of_group) or of_tasks)


def _telling(found: Sequence[Rejection]) -> Sequence[Rejection]:
    return [one for one in found if one.reason not in HINTS] or found


def _first(found: Sequence[Rejection]) -> tuple[Rejection, ...]:
    once = [one for at, one in enumerate(found) if one not in found[:at]]
    return tuple(once[:MAIN])


def sentence(rejection: Rejection) -> str:
    """Return the sentence for one rejection."""
    template = REASONS.get(rejection.reason)
    if template is None:
        return f"{rejection.reason} ({rejection.count})"
    try:
        return written(template, {**rejection.detail, "count": rejection.count})
    except (KeyError, ValueError):
        return f"{rejection.reason} ({rejection.count}): {dict(rejection.detail)}"


def as_data(found: Mapping[str, Sequence[Rejection]]) -> dict[str, list[dict[str, Any]]]:
    """Convert rejections to plain lists and mappings, for JSON."""
    return {
        name: [{"reason": r.reason, "count": r.count, "detail": dict(r.detail)} for r in listed]
        for name, listed in found.items()
    }
