"""A demand for workers of a node, and the lease by which a worker meets it."""

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
"""A class of an owner's tasks, as (owner, number of the scheduling class)."""


class Asker(Protocol):
    """The part of a node that makes a demand and gets the outcome of the demand."""

    def granted(self, lease: Lease) -> None:
        """Use a lease whose worker is ready."""
        ...

    def due(self, lease: Lease) -> None:
        """Ask the owner to return the lease after the running task, because others wait."""
        ...

    def refused(self, demand: Demand, reason: str, code: str) -> None:
        """Handle a refusal: the demand cannot be met now.

        `code`: if the demand can never be met, the code of the error with which its tasks fail;
        otherwise "".
        """
        ...


class NoAsker:
    """The asker of a demand whose outcome nobody needs."""

    def granted(self, lease: Lease) -> None:
        """Do nothing."""

    def due(self, lease: Lease) -> None:
        """Do nothing."""

    def refused(self, demand: Demand, reason: str, code: str) -> None:
        """Do nothing."""


NO_ASKER = NoAsker()


class Demand(msgspec.Struct, kw_only=True, eq=False):
    """A class of an owner's tasks, or an actor, that would use `count` workers."""

    owner: bytes
    scheduling_class: int
    place: ResourceSet
    """The resources that must be free before a worker starts."""
    hold: ResourceSet
    """The resources that each worker holds while it runs."""
    count: int
    order: int
    job: bytes = b""
    environment: bytes = b""
    priority: int = 0
    queue: str = ""
    group: BundleId | None = None
    """The placement group, and the index of the bundle (-1 for any bundle)."""
    actor: bytes = b""
    strategy: Mapping[str, Any] = {}
    since: float = 0.0
    """The time when the demand began to wait."""
    warned: bool = False
    here: int = -1
    """How many of the `count` workers this node may start itself; -1 for no limit."""
    is_forwarded: bool = False
    """Whether another node was asked for workers, too."""
    is_withdrawn: bool = False
    """Whether the actor was withdrawn while its worker was starting. The worker then must not
    create the actor.
    """
    is_claim: bool = False
    """Whether the demand represents room that is kept for a gang. No worker is started for it."""
    any_gpu_memory: bool = False
    """Whether the work may use more than its share of a GPU's memory."""
    retriable: bool = True
    """Whether the demand's work runs again if its worker is ended for lack of memory."""
    is_own: bool = False
    """Whether the owner is a process of this node.

    The demand of an owner on another node may name a new queue that this node does not know yet.
    """
    can_run_here: bool = True
    """Whether this node could run the demand's work if nothing ran here."""
    asker: Asker = NO_ASKER
    lacks_worker: bool = False
    """Whether the last attempt to meet the demand found room, but no worker."""
    kind: WorkerKind = (b"", b"", False)
    """The kind of workers that the demand needs."""

    def __post_init__(self) -> None:
        # Computed only once, because every round examines every waiting demand.
        has_devices = any(name in self.hold for name in ACCELERATORS)
        self.kind = (self.job, self.environment, has_devices)

    @property
    def key(self) -> DemandKey:
        """The owner and its class, which together identify the demand."""
        return (self.owner, self.scheduling_class)

    @property
    def room(self) -> bytes | None:
        """The placement group in whose bundles the demand runs; None outside of all groups."""
        return None if self.group is None else self.group[0]


class Lease(msgspec.Struct, kw_only=True, eq=False):
    """A worker and resources that are lent to meet a demand."""

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
        """Whether the lease yields to others after its running task: it is a lease of tasks outside
        of bundles, and its task does not wait in `get`.
        """
        return not self.demand.actor and self.demand.group is None and not self.is_blocked

    @property
    def gang(self) -> EncodedView:
        """The gang of the lease, as its worker sees it; empty for a lease outside of gangs."""
        return self.pool.gang if isinstance(self.pool, BundlePool) else NO_VIEW

    @property
    def resources(self) -> dict[str, float]:
        """The amounts that the lease holds, by resource."""
        return self.demand.hold.to_mapping()

    @property
    def devices(self) -> dict[str, list[int]]:
        """The device numbers that the lease holds, by resource."""
        return {name: [i for i, _ in taken] for name, taken in self.rest.instances.items()}
