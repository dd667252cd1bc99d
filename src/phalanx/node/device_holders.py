"""Finds the work (a lease or a member of a job) to which each GPU of a node, and each process on a
GPU, belongs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Protocol

import msgspec

from phalanx.node.bundle_pool import BundlePool
from phalanx.node.gpu_shares import CardMemory, memory_in, mode_in
from phalanx.node.leases.machine import LeaseMachine
from phalanx.node.leases.model import Lease
from phalanx.observe.devices import DeviceProcess, DeviceSample
from phalanx.scheduler.devices.instances import Allocation, NodeResources

_SHOWN = 12
"""The number of hex digits of an actor's id that are shown."""


class Holder(msgspec.Struct, frozen=True):
    """Work that holds devices. `pids`: the processes with which it began."""

    name: str
    devices: tuple[int, ...]
    pids: tuple[int, ...]
    key: bytes = b""
    """The id of the holder's worker, or of its first command."""
    is_member: bool = False
    """Whether the holder is a member of a job."""
    mode: str = ""
    """How the holder's devices are shared; "" for devices that are not shared."""
    limits: dict[int, int] = {}
    """The bytes that the holder may use on each shared device."""
    memory: dict[int, int] = {}
    """The bytes that are set aside for the holder on each shared device."""


class HoldingMembers(Protocol):
    """Knows the members of jobs that run on this node."""

    def holders(self) -> Iterable[Holder]:
        """Return a holder for each member that runs."""
        ...


class DeviceHolders:
    """Names the holders of a node's devices: members of jobs, tasks and actors. The class
    implements `devices.Holders`.
    """

    def __init__(
        self,
        members: HoldingMembers,
        leases: LeaseMachine,
        card_memory: CardMemory = lambda number: 0,
    ) -> None:
        self._members = members
        self._leases = leases
        self._card_memory = card_memory

    def name(self, sample: DeviceSample) -> DeviceSample:
        """Return the sample with the holder of each process filled in."""
        if not sample.processes:
            return sample
        names = {pid: one.name for one in self.all() for pid in one.pids}
        named = tuple(
            msgspec.structs.replace(one, holder=_holder(one, names)) for one in sample.processes
        )
        return msgspec.structs.replace(sample, processes=named)

    def of_devices(self) -> dict[int, list[str]]:
        """Return the names of the holders of each device."""
        found: dict[int, list[str]] = {}
        for one in self.all():
            for number in one.devices:
                found.setdefault(number, []).append(one.name)
        return found

    def all(self) -> Iterator[Holder]:
        """Yield a holder for each member that runs and for each lease whose worker runs. Work that
        holds no devices is included, because it may use devices all the same.
        """
        yield from self._members.holders()
        for lease in self._leases.leases.values():
            pids = (lease.worker.pid,) if lease.worker.pid else ()
            devices = tuple(lease.devices.get("GPU", ()))
            if devices or pids:
                yield holder_of(
                    _name(lease),
                    lease.rest,
                    lease.pool,
                    self._card_memory,
                    pids,
                    lease.worker.worker_id,
                    is_limited=not lease.demand.any_gpu_memory,
                )


def holder_of(
    name: str,
    held: Allocation,
    pool: NodeResources | BundlePool,
    card_memory: CardMemory,
    pids: tuple[int, ...],
    key: bytes,
    is_member: bool = False,
    is_limited: bool = True,
) -> Holder:
    """Return the holder of these resources, with its shares of GPUs. `is_limited`: whether the
    holder may use only its share of a GPU's memory.
    """
    return Holder(
        name=name,
        devices=tuple(number for number, _ in held.instances.get("GPU", ())),
        pids=pids,
        key=key,
        is_member=is_member,
        mode=mode_in(held, pool),
        limits=memory_in(held, pool, card_memory) if is_limited else {},
        memory=memory_in(held, pool, card_memory, is_limit=False),
    )


def _name(lease: Lease) -> str:
    demand = lease.demand
    if demand.actor:
        return f"actor {demand.actor.hex()[:_SHOWN]}"
    return f"tasks of driver {demand.job.hex()}"


def _holder(process: DeviceProcess, names: dict[int, str]) -> str:
    chain = (process.pid, *process.ancestors)
    return next((names[pid] for pid in chain if pid in names), "")


def owner_of(process: DeviceProcess, pids: Iterable[int]) -> int:
    """Return the pid among `pids` that is the process itself or an ancestor of it; 0 if no pid
    matches.
    """
    chain = (process.pid, *process.ancestors)
    among = set(pids)
    return next((pid for pid in chain if pid in among), 0)
