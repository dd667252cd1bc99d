"""A demand for workers of a node, and the lease of one worker that meets it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import msgspec

from phalanx.model.options import ACCELERATORS
from phalanx.node.bundle_pool import BundlePool
from phalanx.node.workers import WorkerKind, WorkerRecord
from phalanx.scheduler.devices.instances import Allocation, NodeResources
from phalanx.scheduler.devices.sets import ResourceSet

DemandKey = tuple[bytes, int]
"""(owner, number of its scheduling class)."""


class Asker(Protocol):
    """Who stands behind a demand, and is notified of what becomes of it."""

    def granted(self, lease: Lease) -> None:
        """The lease's worker is there, and is the asker's."""
        ...

    def due(self, lease: Lease) -> None:
        """Others wait: the lease is to be given back after the task that runs."""
        ...

    def refused(self, demand: Demand, reason: str, code: str) -> None:
        """The demand cannot be met: for ever when there is the `code` of an error, with which its
        tasks fail, else for now."""
        ...


class NoAsker:
    """Nobody is notified of this demand."""

    def granted(self, lease: Lease) -> None:
        """See Asker."""

    def due(self, lease: Lease) -> None:
        """See Asker."""

    def refused(self, demand: Demand, reason: str, code: str) -> None:
        """See Asker."""


NO_ASKER = NoAsker()


class Demand(msgspec.Struct, kw_only=True, eq=False):
    """A class of one owner's tasks, or one actor, that would use `count` workers."""

    owner: bytes
    scheduling_class: int
    place: ResourceSet
    """What must be free to start."""
    hold: ResourceSet
    """What is held while running."""
    count: int
    order: int
    job: bytes = b""
    environment: bytes = b""
    priority: int = 0
    queue: str = ""
    group: tuple[bytes, int] | None = None
    """(placement group, bundle index or -1)."""
    actor: bytes = b""
    strategy: Mapping[str, Any] = {}
    since: float = 0.0
    """When it began to wait."""
    warned: bool = False
    here: int = -1
    """How many of `count` this node may place itself; -1: as many as it can."""
    is_forwarded: bool = False
    """Whether another node was asked for it."""
    is_withdrawn: bool = False
    """Whether an actor whose worker starts is not to be made here any more."""
    is_claim: bool = False
    """Whether it is room that is kept for a gang: nothing is started for it."""
    retriable: bool = True
    """Whether what runs for it runs again when its worker is ended for want of memory."""
    is_own: bool = False
    """Whether its owner is a process of this node. Other nodes may know of a new queue before this
    one does."""
    can_run_here: bool = True
    """Whether this node, empty, could run it."""
    asker: Asker = NO_ASKER
    lacks_worker: bool = False
    """Whether there was room for it when it was looked at last, and no worker."""
    kind: WorkerKind = (b"", b"", False)
    """Of its workers."""

    def __post_init__(self) -> None:
        # Once: every round looks at every demand that waits.
        has_devices = any(name in self.hold for name in ACCELERATORS)
        self.kind = (self.job, self.environment, has_devices)

    @property
    def key(self) -> DemandKey:
        """Whose it is."""
        return (self.owner, self.scheduling_class)

    @property
    def room(self) -> bytes | None:
        """The placement group in whose bundles it runs; None outside of all."""
        return None if self.group is None else self.group[0]


class Lease(msgspec.Struct, kw_only=True, eq=False):
    """Resources and a worker in use."""

    number: int
    demand: Demand
    worker: WorkerRecord
    cpus: Allocation
    rest: Allocation
    pool: NodeResources | BundlePool
    since: float
    is_granted: bool = False
    is_due: bool = False
    is_blocked: bool = False

    @property
    def gives_way(self) -> bool:
        """Whether its worker is free for others after the task that it runs."""
        return not self.demand.actor and self.demand.group is None and not self.is_blocked

    @property
    def gang(self) -> bytes:
        """The view of its gang for its worker; empty outside gangs."""
        return self.pool.gang if isinstance(self.pool, BundlePool) else b""

    @property
    def resources(self) -> dict[str, float]:
        """Amounts held, by name."""
        return self.demand.hold.to_mapping()

    @property
    def devices(self) -> dict[str, list[int]]:
        """Device numbers held, by resource."""
        return {name: [i for i, _ in taken] for name, taken in self.rest.instances.items()}
