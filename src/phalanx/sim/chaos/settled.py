"""What must be true once faults have ended and drivers have left: nothing is held by anybody."""

from __future__ import annotations

from typing import TYPE_CHECKING

from phalanx.model.lifecycle import DEAD, REMOVED
from phalanx.sim.chaos.broken import Broken, group_name
from phalanx.sim.chaos.process import SimProcess

if TYPE_CHECKING:
    from phalanx.head.control_plane import ControlPlane
    from phalanx.head.groups.record import KnownGroup
    from phalanx.sim.chaos.world import World


def actors_left(world: World) -> list[str]:
    """Actors that live, in the head's words or as processes."""
    left = []
    if world.head is not None:
        table = world.head.control.actor_table.all()
        left += [f"{a.class_name} is {a.state}" for a in table if a.state != DEAD]
    for node in world.running_nodes():
        workers = node.processes.workers.values()
        left += [f"{w.name} is an actor" for w in workers if w.actor is not None]
    return left


def references_left(world: World) -> list[str]:
    """What processes hold of objects though no program refers to any, in words."""
    left = []
    for node in world.running_nodes():
        for process in node.host.processes.values():
            if not isinstance(process, SimProcess):
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


def leftovers(world: World) -> list[str]:
    """What is still held by somebody, in words."""
    head = world.head
    if head is None:
        return ["there is no head"]
    left = actors_left(world)
    for row in head.control.group_table.table():
        if row["state"] != REMOVED:
            left.append(f"group {row['placement_group_id']} is {row['state']}")
    for node in world.running_nodes():
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


def check_group(control: ControlPlane, group: KnownGroup) -> None:
    """Raise Broken when a group that is said to be there has a bundle on no living node."""
    gone = [node for node in group.nodes if not control.nodes.is_alive(node)]
    if gone:
        raise Broken(
            f"group {group_name(group.group)} is said to be created, and its bundles are on "
            f"{', '.join(node[:12] or 'no node' for node in gone)}, which is not there",
            ["head"],
        )


def check_references(world: World) -> None:
    """Raise Broken when an object is kept that nobody refers to."""
    left = references_left(world)
    if left:
        raise Broken(
            f"{len(left)} counts of objects are left when no program refers to any: "
            f"{'; '.join(left[:4])}",
            [one.split(" ", 1)[0] for one in left],
        )


def check(world: World) -> None:
    """Raise Broken when anything is left."""
    left = leftovers(world)
    if left:
        raise Broken(
            f"{len(left)} things are left when nobody wants anything any more: "
            f"{'; '.join(left[:4])}",
            ["head", *(node.name for node in world.running_nodes())],
        )
