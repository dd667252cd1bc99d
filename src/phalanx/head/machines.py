"""Rules for nodes that share a machine: together they offer no more than the machine has, and their
names differ.

If a person gave a node a number of CPUs, that number is accepted. Two kinds of amounts count only
once per machine: GPUs, because each node numbers the same devices from 0, and amounts that nodes
have detected.
"""

from __future__ import annotations

from collections.abc import Iterable

from phalanx.head.nodes.record import NodeRecord

_WORDS = {"CPU": ("CPUs", "--num-cpus"), "GPU": ("GPUs", "--num-gpus")}
MEMORY = "memory"


def name_fault(new: NodeRecord, connected: Iterable[NodeRecord]) -> str | None:
    """Return why a node cannot join under its given name; None if it can join."""
    for other in connected if new.name else ():
        if other.name == new.name and other.node_id != new.node_id:
            return (
                f"a node called {new.name} is in the cluster already (node {other.node_id[:12]} at "
                f"{other.host}): give another --node-name, or end that node first"
            )
    return None


def machine_fault(new: NodeRecord, living: Iterable[NodeRecord]) -> str | None:
    """Return why a node cannot join the other nodes of its machine; None if it can join."""
    others = _beside(new, living)
    for name, (words, option) in _WORDS.items() if others else ():
        machine = new.machine
        assert machine is not None
        offered, has = new.totals.get(name, 0.0), machine.amounts.get(name, 0.0)
        is_given = name in machine.given
        if not offered or not has or (is_given and name == "CPU"):
            continue
        if name == "GPU" and any(name in record.limits for record in (new, *others)):
            # each of these nodes sees only some of the devices, because its environment limits them
            continue
        held = sum(record.whole.get(name, 0.0) for record in others)
        if held + offered > has:
            nodes = "another node" if len(others) == 1 else f"{len(others)} other nodes"
            left = max(has - held, 0.0)
            return (
                f"{nodes} of this cluster on the same machine ({new.hostname}) already "
                f"{'offers' if len(others) == 1 else 'offer'} {held:g} of its {has:g} {words}, so "
                f"that {left:g} are left for this one, which offers {offered:g}: give {option} "
                "with what it may use, or end the other first"
            )
    return None


def memory_left(new: NodeRecord, living: Iterable[NodeRecord]) -> float | None:
    """Return the bytes of memory that a node may offer beside the other nodes of its machine; None
    if the node may offer the amount in its record.
    """
    others, machine = _beside(new, living), new.machine
    offered = new.totals.get(MEMORY, 0.0)
    if not others or machine is None or MEMORY in machine.given:
        return None
    held = sum(record.totals.get(MEMORY, 0.0) for record in others)
    left = max(machine.amounts.get(MEMORY, 0.0) - held, 0.0)
    return left if left < offered else None


def _beside(new: NodeRecord, living: Iterable[NodeRecord]) -> list[NodeRecord]:
    machine = new.machine
    if machine is None:
        return []
    return [
        record
        for record in living
        if record.node_id != new.node_id
        and record.machine is not None
        and record.machine.key == machine.key
    ]
