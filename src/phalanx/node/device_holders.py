"""Who has which GPU of a node: by what was given away, and by the processes that use it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Protocol

import msgspec

from phalanx.node.leases.machine import LeaseMachine
from phalanx.node.leases.model import Lease
from phalanx.observe.devices import DeviceProcess, DeviceSample

_SHOWN = 12


class Holder(msgspec.Struct, frozen=True):
    """Somebody who was given devices; `pids` are of the processes that it began with."""

    name: str
    devices: tuple[int, ...]
    pids: tuple[int, ...]


class HoldingMembers(Protocol):
    """The members of jobs on this node."""

    def holders(self) -> Iterable[Holder]:
        """Each that runs."""
        ...


class DeviceHolders:
    """See devices.Holders. Members of jobs, tasks and actors."""

    def __init__(self, members: HoldingMembers, leases: LeaseMachine) -> None:
        self._members = members
        self._leases = leases

    def name(self, sample: DeviceSample) -> DeviceSample:
        """See Holders."""
        if not sample.processes:
            return sample
        names = {pid: one.name for one in self._all() for pid in one.pids}
        named = tuple(
            msgspec.structs.replace(one, holder=_holder(one, names)) for one in sample.processes
        )
        return msgspec.structs.replace(sample, processes=named)

    def of_devices(self) -> dict[int, list[str]]:
        """See Holders."""
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
