"""What a node's lease machine asks of its shell, and about the other nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from phalanx.node.demands import Demand
    from phalanx.node.leases import Lease
    from phalanx.node.workers import WorkerRecord


class Effects(Protocol):
    """What the machine asks of its shell."""

    def start_worker(self, worker: WorkerRecord) -> None:
        """Fork a process under this record's id; `worker_ready` follows."""
        ...

    def stop_worker(self, worker: WorkerRecord, reason: str, force: bool) -> None:
        """End the process (at once when `force`); `worker_gone` follows."""
        ...

    def warn_worker(self, worker: WorkerRecord) -> None:
        """Ask the process to end by SIGTERM: it is preempted; `worker_gone` follows."""
        ...

    def granted(self, lease: Lease) -> None:
        """Tell the owner, or let the actor be made, that `lease.worker` is its own."""
        ...

    def due(self, lease: Lease) -> None:
        """Ask the owner to give the lease back soon."""
        ...

    def refused(self, demand: Demand, reason: str, error: str) -> None:
        """This demand cannot be met. `error` names a class when its tasks are to fail."""
        ...


class Elsewhere(Protocol):
    """What the machine asks about the other nodes."""

    @property
    def is_alone(self) -> bool:
        """Whether there is none."""
        ...

    def why_closed(self, node_id: str) -> str:
        """Why this node takes nothing new; empty when it does."""
        ...

    def is_feasible(self, demand: Demand) -> bool:
        """Whether any node could ever run this."""
        ...

    def class_over(self, owner: bytes, scheduling_class: int) -> None:
        """This class of an owner's tasks will want nothing any more."""
        ...


class Nobody:
    """There are no other nodes."""

    is_alone = True

    def why_closed(self, node_id: str) -> str:
        """It is not there."""
        return "does not exist or is not alive"

    def is_feasible(self, demand: Demand) -> bool:
        """Nowhere."""
        return False

    def class_over(self, owner: bytes, scheduling_class: int) -> None:
        """Nobody was asked."""
