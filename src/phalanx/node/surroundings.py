"""What a node's lease machine asks of its shell, and about the other nodes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from phalanx.node.demands import Demand
    from phalanx.node.lease import Lease
    from phalanx.node.workers import WorkerRecord
    from phalanx.policies.placement import Placement
    from phalanx.protocol.cluster_messages import ViewRow


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

    def refused(self, demand: Demand, reason: str, code: str) -> None:
        """This demand cannot be met. `code`: of the error that its tasks fail with; empty when they
        wait."""
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


class Spills(Elsewhere, Protocol):
    """What a node's shell asks of whoever asks the other nodes; see `spilling`."""

    def put(self, row: ViewRow) -> None:
        """A node, this one or another, is as this row says."""
        ...

    def remove(self, node_id: str) -> None:
        """A node is gone."""
        ...

    def forget(self, node_id: str) -> None:
        """All that was asked of a node is void."""
        ...

    def use(self, placement: Placement) -> None:
        """The cluster's policy is this one."""
        ...

    def must_plan(self, strategy: Mapping[str, Any]) -> bool:
        """Whether nothing may start here before it was looked at what other nodes have."""
        ...

    def plan(self, demands: Iterable[Demand], now: float, is_blind: bool = False) -> None:
        """Set anew what is asked of whom."""
        ...

    def granted(self, node_id: str, owner: bytes, scheduling_class: int) -> None:
        """A node lends a worker for a demand."""
        ...

    def owner_gone(self, owner: bytes) -> None:
        """A process of this node ended."""
        ...


class Nobody:
    """There are no other nodes: nothing is known of any, and nobody is asked."""

    is_alone = True

    def why_closed(self, node_id: str) -> str:
        """It is not there."""
        return "does not exist or is not alive"

    def is_feasible(self, demand: Demand) -> bool:
        """Nowhere."""
        return False

    def class_over(self, owner: bytes, scheduling_class: int) -> None:
        """Nobody was asked."""

    def put(self, row: ViewRow) -> None:
        """Nobody asks."""

    def remove(self, node_id: str) -> None:
        """It was not known."""

    forget = remove

    def owner_gone(self, owner: bytes) -> None:
        """Nobody was asked on its behalf."""

    def use(self, placement: Placement) -> None:
        """There is nothing to choose."""

    def must_plan(self, strategy: Mapping[str, Any]) -> bool:
        """All that starts, starts here."""
        return False

    def plan(self, demands: Iterable[Demand], now: float, is_blind: bool = False) -> None:
        """Nobody is asked."""

    def granted(self, node_id: str, owner: bytes, scheduling_class: int) -> None:
        """Nobody lends."""
