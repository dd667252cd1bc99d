"""Checks that nothing is held after faults and drivers have ended."""

from __future__ import annotations

from phalanx.model.lifecycle import DEAD, REMOVED
from phalanx_research.chaos.broken import Broken, group_name
from phalanx_research.chaos.cluster import Cluster


def actors_left(cluster: Cluster) -> list[str]:
    """Return the actors that still exist, in the head's records or as processes."""
    left = []
    if cluster.head is not None:
        table = cluster.head.control.actor_table.all()
        left += [f"{a.class_name} is {a.state}" for a in table if a.state != DEAD]
    for node in cluster.running_nodes():
        workers = node.processes.workers.values()
        left += [f"{w.name} is an actor" for w in workers if w.actor is not None]
    return left


def references_left(cluster: Cluster) -> list[str]:
    """Return descriptions of everything that processes hold for objects to which no program
    refers.
    """
    left = []
    for node in cluster.running_nodes():
        for process in (*node.drivers, *node.processes.workers.values()):
            if not (process.is_alive and process.process_id):
                continue
            owner = process.owner
            counts = {
                **owner.references.counts(),
                "remembered": len(owner.reconstruction.lineage),
                "being made again": len(owner.reconstruction.running),
                "in files": len(owner.objects.in_files),
                "pending": len(owner.tasks.machine.pending) + len(owner.calls.by_number),
            }
            left += [f"{process.name} has {n} {what}" for what, n in counts.items() if n]
    return left


def leftovers(cluster: Cluster) -> list[str]:
    """Return descriptions of everything that is still held."""
    head = cluster.head
    if head is None:
        return ["there is no head"]
    left = actors_left(cluster)
    for row in head.control.group_table.table():
        if row["state"] != REMOVED:
            left.append(f"group {row['placement_group_id']} is {row['state']}")
    for node in cluster.running_nodes():
        held = node.bundles.inventory().held
        left += [f"{node.name} holds bundle {i} of {group_name(g)}" for g, i, _, _ in held]
        left += [
            f"{node.name} lends {lease.worker.worker_id.hex()} to {lease.demand.owner.hex()}"
            for lease in node.leases.leases.values()
        ]
        names = sorted({f"{o.name} of {o.job}" for o in node.commands.running.values()})
        left += [f"{node.name} runs {name}" for name in names]
        left += [f"{node.name} waits for {d.place}" for d in node.leases.waiting.all()]
        if node.resources.available() != node.resources.total():
            left.append(f"{node.name} has {node.resources.available()} of {node.total}")
        if not head.control.nodes.is_alive(node.node_id):
            left.append(f"the head does not know that {node.name} is there")
    return left


def check_references(cluster: Cluster) -> None:
    """Raise Broken if an object to which no program refers is still kept."""
    left = references_left(cluster)
    if left:
        raise Broken(
            f"{len(left)} counts of objects are left when no program refers to any: "
            f"{'; '.join(left[:4])}",
            [one.split(" ", 1)[0] for one in left],
        )


def check(cluster: Cluster) -> None:
    """Raise Broken if anything is still held."""
    left = leftovers(cluster)
    if left:
        raise Broken(
            f"{len(left)} things are still held after all drivers have left: {'; '.join(left[:4])}",
            ["head", *(node.name for node in cluster.running_nodes())],
        )
