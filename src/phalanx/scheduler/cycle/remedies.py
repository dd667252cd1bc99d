"""The change that would remove each kind of rejection, in words."""

from __future__ import annotations

from typing import Any

from phalanx.scheduler.cycle.plan import Rejection
from phalanx.scheduler.cycle.wording import written

_OR_LESS = ", or ask for at most {most:g}"
_FIXED: dict[str, str] = {
    "gang-not-whole": "make room for {count} more of its tasks, or ask for fewer at once",
    "gang-role": "make room for {count} more of its tasks, or ask for fewer at once",
    "gang-never-fits": "ask for at most {most} at once, or add nodes for {count} more",
}
"""The changes that would help a job of `sbatch`, whose minimum is all of its tasks."""

REMEDIES: dict[str, str] = {
    "gang-tasks-missing": "submit {count} more tasks, or lower minMember to {tasks}",
    "gang-role-short": "submit the missing tasks, or lower minTaskMember",
    "gang-subgroups-short": "submit the missing subgroups, or lower min_subgroups",
    "gang-not-whole": "make room for {count} more of its tasks, or lower --min (minMember)",
    "gang-member": "see the reasons of that task",
    "gang-role": "make room for {count} more tasks of role {role}, or lower its minimum",
    "gang-subgroup": "make room for {count} more of these subgroups, or lower min_subgroups",
    "gang-promised": "nothing: it starts once the evicted tasks are gone",
    "not-tried": "wait for an action that places tasks (allocate), or configure one",
    "not-let-in": "wait for its queue to let it in, or lower minResources",
    "behind": "wait for those ahead, or raise its priority",
    "podgroup-missing": "create the podgroup, or name one",
    "queue-missing": "create queue {queue}, or name another",
    "queue-closed": "open queue {queue}, or name another",
    "queue-not-leaf": "name a queue below {queue}",
    "queue-tree": "name parents that exist, without a cycle, and submit to queues without children",
    "queue-quota": "free {lack:g} {resource} in queue {queue}, or raise what it may hold",
    "queue-full": "wait for tasks of the queue to end, or for its turn",
    "queue-overused": "wait for tasks of the queue to end, or raise its weight",
    "queue-capability": "free {lack:g} {resource} in queue {queue}, or raise its capability",
    "cluster-overcommitted": "wait for work to end, add nodes, or raise overcommit-factor",
    "namespace-quota": "free {lack:g} {resource} in the namespace, or raise its quota",
    "user-jobs": "wait for a job of {who} to end, or raise the limit (phalanx set-limits)",
    "user-limit": "free {lack:g} {resource} held by {who}, or raise the limit",
    "resource": f"free {{lack:g}} more {{resource}} on one node{_OR_LESS}",
    "deserves-no-more": "wait for room, or raise what queue {queue} deserves (deserved, weight)",
    "held-by-right": "wait for work there to end, or lower what those queues deserve",
    "never-fits": "ask for at most {most:g} {resource}, or add a node that has {asked:g}",
    "never-fits-there": "ask for at most {most:g} {resource}, or for other nodes",
    "gang-never-fits": "lower --min (minMember) to {most}, or add nodes for {count} more",
    "no-single-node": "make one node meet all of it, or ask for less",
    "slots": "end a task there, or raise the nodes' pods",
    "unschedulable": "open the nodes again",
    "labels": "give a node the labels, or ask for others",
    "taints": "tolerate the taint, or take it off a node",
    "ports": "use another port, or end the task that has it",
    "pod-affinity": "start the task it must be near, or give up the affinity",
    "pod-anti-affinity": "end the tasks it keeps away from, or add nodes",
    "spread-label": "give the nodes the label",
    "spread": "make room in the emptier domains, or raise the skew allowed",
    "node-group": "give the queue an affinity to one of the nodes' groups",
    "node-group-limit": "wait for the queue's tasks there to end, or raise its limit",
    "revocable-zone": "wait for the zone's hours, or let the task be revoked",
    "usage": "wait for the load to fall, or raise the threshold",
    "numa": "ask for less, or for a looser NUMA policy",
    "devices": "wait for a device to have that much memory, or ask for less",
    "gpu-memory": "wait for a sharer of a GPU to end, or ask for less of its memory",
    "cell": "wait for work of queue {queue} to end, or promise the queue more cells",
    "cell-borrowed": "wait until they are evicted for it, or end",
    "cell-needed": "promise the queue cells, or let its jobs be evicted (reclaimable)",
    "gpu-type": "ask for a type that the cluster has, or add nodes with this one",
    "cpu-only": "end work on the nodes without GPUs, or let the selector use all nodes",
    "tried": "nothing: they are tried again after half a minute",
    "rack": "make room in its racks, or let the selector leave them (same_rack: prefer)",
    "common-ports": "ask for fewer ports, or let nodes offer more (--ports)",
    "proportion": "ask for less cpu and memory, or lower the proportion kept",
    "reserved": "declare a run time that ends before the promised work begins",
    "reserved-time": "give it a time limit that ends before, or name a reservation that it may use",
    "reservation-begins": "nothing: it starts then",
    "reservation-over": "name another reservation, or none (phalanx update --reservation)",
    "reservation-not-its-own": "name another reservation, or add its user or queue to this one",
    "reservation-closed": "name another reservation, or none",
    "outside-reservation": "ask for less, or make the reservation larger",
    "license": "wait for those jobs to end, or set a higher count (phalanx set-license)",
    "license-none": "ask for fewer, or set a higher count (phalanx set-license)",
    "promised": "nothing: it starts then, or before if others end early",
    "no-room-yet": "declare a shorter run time, which may fit in before the promised work",
    "extender": "check why the extender refuses the nodes",
    "topology": "allow a higher tier, or make room within one domain",
    "no-nodes": "add nodes",
    "waiting-for-release": "nothing: it starts once the evicted tasks are gone",
    "waiting-for-gang": "nothing for this task: the rest of its gang needs room",
    "fits-alone": "nothing for this task: see its gang",
}
"""The change that would help, for each reason. `count`, the rejection's details, and `lack` (the
missing amount) fill its placeholders.
"""


def remedy(rejection: Rejection) -> str:
    """Return in words the change that would help; "" for a reason that only an outside plugin
    knows.
    """
    known = _FIXED if rejection.detail.get("fixed_minimum") else REMEDIES
    template = known.get(rejection.reason, "")
    if "apart" in rejection.detail:
        template = template.replace("more of its tasks", "more of its tasks on other {apart}")
    if not rejection.detail.get("most"):
        template = template.removesuffix(_OR_LESS)
    try:
        return written(template, _filled(rejection))
    except (KeyError, ValueError):
        return ""


def _filled(rejection: Rejection) -> dict[str, Any]:
    detail: dict[str, Any] = {**rejection.detail, "count": rejection.count}
    for asked, there in (("asked", "most"), ("would_use", "limit")):
        if asked in detail and there in detail:
            detail["lack"] = max(detail[asked] - detail[there], 0)
    return detail
