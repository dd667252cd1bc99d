"""Machines as `nvidia-smi topo -m` prints them, and the devices that the exact rule chooses."""

from __future__ import annotations

from phalanx.scheduler.devices.machines import known_machines, machine
from phalanx.scheduler.devices.topology import Topology, from_rows

from .schema import Machine, WiringRow, WiringTable


def answer(row: WiringRow, table: WiringTable) -> dict[str, object]:
    """Return the product's choice in the terms of the row."""
    topology = _topology(row.machine, table)
    picked = topology.pick(row.free, row.k, row.required)
    linked = sum(topology.weights[i][j] for i in picked for j in picked if i < j)
    return {"pack": list(picked), "pack_w": linked}


def expected(row: WiringRow) -> dict[str, object]:
    """The row's expectation."""
    return {"pack": row.pack, "pack_w": row.pack_w}


def _topology(name: str, table: WiringTable) -> Topology:
    if name not in table.machines and name in known_machines():
        return machine(name)
    given: Machine = table.machines[name]
    pcie = given.topo_mp
    return from_rows(
        [line.split() for line in given.topo_m],
        given.numa,
        None if pcie is None else [line.split() for line in pcie],
    )
