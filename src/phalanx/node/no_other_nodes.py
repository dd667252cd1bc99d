"""What a node asks of its spilling, and the stand-in for it on a node that has no others."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Protocol

from phalanx.node.leases.model import Demand
from phalanx.protocol.cluster_messages import ViewRow
from phalanx.scheduler.devices.sets import ResourceSet
from phalanx.scheduler.placement.outcome import Outcome
from phalanx.scheduler.placement.placement_policy import PlacementPolicy


class OtherNodesView(Protocol):
    """What the lease machine asks about the other nodes."""

    @property
    def is_alone(self) -> bool:
        """Whether there is no other node."""
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


class Spills(OtherNodesView, Protocol):
    """What the parts of a node ask of whoever asks the other nodes; see `spilling`."""

    def put(self, row: ViewRow) -> None:
        """A node, this one or another, is as this row says."""
        ...

    def remove(self, node_id: str) -> None:
        """A node is gone."""
        ...

    def forget(self, node_id: str) -> None:
        """All that was asked of a node is void."""
        ...

    def use(self, placement: PlacementPolicy) -> None:
        """The cluster's policy is this one."""
        ...

    def must_plan(self, strategy: Mapping[str, Any]) -> bool:
        """Whether nothing may start here before it was looked at what other nodes have."""
        ...

    def plan(self, demands: Iterable[Demand], now: float, is_blind: bool = False) -> None:
        """Set anew what is asked of whom."""
        ...

    def why(self, demand: Demand, now: float) -> Outcome | None:
        """What the strategy of a waiting demand says now; None where there is no other node."""
        ...

    def granted(self, node_id: str, owner: bytes, scheduling_class: int, hold: ResourceSet) -> None:
        """A node lends a worker for a demand, which holds so much of what is not in bundles."""
        ...

    def given_back(self, node_id: str) -> None:
        """A worker that a node lent is its own again."""
        ...

    def owner_gone(self, owner: bytes) -> None:
        """A process of this node ended."""
        ...


class NoOtherNodes:
    """There are no other nodes: nothing is known of any, and none is asked."""

    is_alone = True

    def why_closed(self, node_id: str) -> str:
        """See OtherNodesView."""
        return "does not exist or is not alive"

    def is_feasible(self, demand: Demand) -> bool:
        """See OtherNodesView."""
        return False

    def class_over(self, owner: bytes, scheduling_class: int) -> None:
        """See OtherNodesView."""

    def put(self, row: ViewRow) -> None:
        """See Spills."""

    def remove(self, node_id: str) -> None:
        """See Spills."""

    forget = given_back = remove

    def owner_gone(self, owner: bytes) -> None:
        """See Spills."""

    def use(self, placement: PlacementPolicy) -> None:
        """See Spills."""

    def must_plan(self, strategy: Mapping[str, Any]) -> bool:
        """See Spills. All that starts, starts here."""
        return False

    def plan(self, demands: Iterable[Demand], now: float, is_blind: bool = False) -> None:
        """See Spills."""

    def why(self, demand: Demand, now: float) -> Outcome | None:
        """See Spills."""
        return None

    def granted(self, node_id: str, owner: bytes, scheduling_class: int, hold: ResourceSet) -> None:
        """See Spills."""
