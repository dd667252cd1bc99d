"""The parts of jobs (`SubJob`; Volcano's subgroups): which part a task belongs to, and in which
domain of the network a part must run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from phalanx.scheduler.cycle import jobs as j
from phalanx.scheduler.cycle.arguments import count
from phalanx.scheduler.cycle.hypernodes import HyperNodes
from phalanx.scheduler.cycle.jobs import Job, SubJob
from phalanx.scheduler.cycle.specs import NetworkTopology


def part_for(job: Job, labels: Mapping[str, str]) -> SubJob:
    """Return the part of a job for a task with these labels: the subgroup of the first policy whose
    labels the task has. Without such a policy, it is the part that stands for the whole job.
    """
    for policy in job.spec.subgroups:
        values = [labels.get(key, "") for key in policy.match_label_keys]
        if values and all(values):
            uid = f"{job.uid}/{policy.name}-{'-'.join(values)}"
            sub = job.subjobs.get(uid)
            if sub is None:
                size = 1 if policy.size is None else policy.size
                sub = SubJob(job, f"{job.uid}/{policy.name}", uid, size, policy.topology)
                sub.match_index = count(values[0]) or 0
                job.subjobs[uid] = sub
            return sub
    sub = job.subjobs.get(job.uid)
    if sub is None:
        sub = job.subjobs[job.uid] = SubJob(job, job.uid, job.uid, 1, job.topology)
    return sub


def bound_and_settle(
    jobs: Sequence[Job],
    tree: HyperNodes,
    node_of: Sequence[int],
    status: Sequence[int],
    is_strict: bool,
) -> None:
    """Turn soft topologies into hard ones that allow the whole cluster, and fix the domains of
    running parts.

    If there are network domains, a part that runs already stays in the smallest domain that
    contains it. As in Volcano, a topology with an unknown tier name sets no bound; with
    `is_strict`, no domain satisfies it.
    """
    top = max(tree.tier.values())
    names = None if is_strict else frozenset(tree.tier_name.values())
    for job in jobs:
        job.topology = _converted(job.topology, top, names)
        for sub in job.subjobs.values():
            sub.topology = _converted(sub.topology, top, names)

    def domain_of(tasks: Sequence[int]) -> str:
        found = ""
        for t in tasks:
            if node_of[t] >= 0 and status[t] in j.HOLDING:
                found = tree.common(found, tree.lowest_of(node_of[t]))
        return found

    if not tree.given:
        return
    for job in jobs:
        if not job.has_topology():
            continue
        for sub in job.subjobs.values():
            if not sub.allocated_hypernode:
                sub.allocated_hypernode = domain_of(sub.tasks)
        if not job.allocated_hypernode:
            job.allocated_hypernode = domain_of(job.tasks)


def _converted(
    topology: NetworkTopology | None, top: int, names: frozenset[str] | None
) -> NetworkTopology | None:
    """Return a topology as a hard one. A soft topology then allows all tiers up to `top`. If
    `names` is given, a hard topology loses a tier name that is not among `names`.
    """
    if topology is None:
        return None
    if topology.mode == "hard":
        name = topology.highest_tier_name
        if name and names is not None and name not in names:
            return NetworkTopology(mode="hard")
        return topology
    return NetworkTopology(mode="hard", highest_tier=top)
