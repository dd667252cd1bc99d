"""The holder of each GPU of a node, by the leases and members that have it and its processes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Protocol

import msgspec

from phalanx.node.leases.machine import LeaseMachine
from phalanx.node.leases.model import Lease
from phalanx.observe.devices import DeviceProcess, DeviceSample

_SHOWN = 12
"""Hex digits of an actor's id that are shown."""


class Holder(msgspec.Struct, frozen=True):
    """One holder of devices; `pids` are the processes with which it began."""

    name: str
    devices: tuple[int, ...]
    pids: tuple[int, ...]


class HoldingMembers(Protocol):
    """Knows the members of jobs on this node."""

    def holders(self) -> Iterable[Holder]:
        """Return a holder for each member that runs."""
        ...


class DeviceHolders:
    """The `devices.Holders` of a node: members of jobs, tasks and actors hold its devices."""

    def __init__(self, members: HoldingMembers, leases: LeaseMachine) -> None:
        self._members = members
        self._leases = leases

    def name(self, sample: DeviceSample) -> DeviceSample:
        """Return the sample with the holder of each of its processes."""
        if not sample.processes:
            return sample
        names = {pid: one.name for one in self._all() for pid in one.pids}
        named = tuple(
            msgspec.structs.replace(one, holder=_holder(one, names)) for one in sample.processes
        )
        return msgspec.structs.replace(sample, processes=named)

    def of_devices(self) -> dict[int, list[str]]:
        """Return the names of the holders of each device."""
        found: dict[int, list[str]] = {}
        for one in self._all():
            for number in one.devices:
                found.setdefault(number, []).append(one.name)
        return found

    def _all(self) -> Iterator[Holder]:
        yield from self._members.holders()
        for lease in self._leases.leases.values():
            pids = (lease.worker.pid,) if lease.worker.pid else ()
            devices = tuple(lease.devices.get("GPU", ()))
            if devices or pids:
                yield Holder(_name(lease), devices, pids)


def _name(lease: Lease) -> str:
    demand = lease.demand
    if demand.actor:
        return f"actor {demand.actor.hex()[:_SHOWN]}"
    return f"tasks of driver {demand.job.hex()}"


def _holder(process: DeviceProcess, names: dict[int, str]) -> str:
    chain = (process.pid, *process.ancestors)
    return next((names[pid] for pid in chain if pid in names), "")
