"""A demand for workers of a node, and the lease of one worker that meets it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import msgspec

from phalanx.model.ids import BundleId
from phalanx.model.jobs.gang_view import NO_VIEW, EncodedView
from phalanx.model.options import ACCELERATORS
from phalanx.node.bundle_pool import BundlePool
from phalanx.node.workers import WorkerKind, WorkerRecord
from phalanx.scheduler.devices.instances import Allocation, NodeResources
from phalanx.scheduler.devices.sets import ResourceSet

DemandKey = tuple[bytes, int]
"""(owner, number of its scheduling class)."""


class Asker(Protocol):
    """Stands behind a demand, and is told what happens to it."""

    def granted(self, lease: Lease) -> None:
        """Take a lease whose worker is ready."""
        ...

    def due(self, lease: Lease) -> None:
        """Give the lease back after the running task, since others wait."""
        ...

    def refused(self, demand: Demand, reason: str, code: str) -> None:
        """Learn that the demand cannot be met, for now or for ever.

        For ever if there is the `code` of an error, with which its tasks then fail.
        """
        ...


class NoAsker:
    """The asker of a demand that nobody waits for."""

    def granted(self, lease: Lease) -> None:
        """Do nothing."""

    def due(self, lease: Lease) -> None:
        """Do nothing."""

    def refused(self, demand: Demand, reason: str, code: str) -> None:
        """Do nothing."""


NO_ASKER = NoAsker()


class Demand(msgspec.Struct, kw_only=True, eq=False):
    """A class of one owner's tasks, or one actor, that would use `count` workers."""

    owner: bytes
    scheduling_class: int
    place: ResourceSet
    """Resources that must be free to start."""
    hold: ResourceSet
    """Resources that are held while running."""
    count: int
    order: int
    job: bytes = b""
    environment: bytes = b""
    priority: int = 0
    queue: str = ""
    group: BundleId | None = None
    """(placement group, bundle index or -1)."""
    actor: bytes = b""
    strategy: Mapping[str, Any] = {}
    since: float = 0.0
    """When the demand began to wait."""
    warned: bool = False
    here: int = -1
    """How many of `count` this node may place itself; -1: as many as it can."""
    is_forwarded: bool = False
    """Whether another node was asked for workers."""
    is_withdrawn: bool = False
    """Whether the actor whose worker starts is not to be made here any more."""
    is_claim: bool = False
    """Whether the demand is room kept for a gang: nothing is started for it."""
    retriable: bool = True
    """Whether its work runs again when its worker is ended for lack of memory."""
    is_own: bool = False
    """Whether its owner is a process of this node.

    A demand of another node may name a new queue that this node does not know yet.
    """
    can_run_here: bool = True
    """Whether this node, if it were empty, could run it."""
    asker: Asker = NO_ASKER
    lacks_worker: bool = False
    """Whether the last look found room for it, but no worker."""
    kind: WorkerKind = (b"", b"", False)
    """The kind of its workers."""

    def __post_init__(self) -> None:
        # Computed once, because every round looks at every demand that waits.
        has_devices = any(name in self.hold for name in ACCELERATORS)
        self.kind = (self.job, self.environment, has_devices)

    @property
    def key(self) -> DemandKey:
        """The owner and its class."""
        return (self.owner, self.scheduling_class)

    @property
    def room(self) -> bytes | None:
        """The placement group in whose bundles it runs; None outside of all."""
        return None if self.group is None else self.group[0]


class Lease(msgspec.Struct, kw_only=True, eq=False):
    """The resources and the worker that a demand has got."""

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
    def is_yielding(self) -> bool:
        """Whether its worker is free for others after the running task."""
        return not self.demand.actor and self.demand.group is None and not self.is_blocked

    @property
    def gang(self) -> EncodedView:
        """The view of its gang for its worker; empty outside gangs."""
        return self.pool.gang if isinstance(self.pool, BundlePool) else NO_VIEW

    @property
    def resources(self) -> dict[str, float]:
        """The amounts held, by name."""
        return self.demand.hold.to_mapping()

    @property
    def devices(self) -> dict[str, list[int]]:
        """The device numbers held, by resource."""
        return {name: [i for i, _ in taken] for name, taken in self.rest.instances.items()}
