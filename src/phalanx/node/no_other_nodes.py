"""The interface of a node's spillback, and a class that stands in for it on a node that is
alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Protocol

from phalanx.node.leases.model import Demand
from phalanx.protocol.cluster_messages import ViewRow
from phalanx.scheduler.devices.sets import ResourceSet
from phalanx.scheduler.placement.outcome import Outcome
from phalanx.scheduler.placement.placement_policy import PlacementPolicy


class OtherNodesView(Protocol):
    """Knows the other nodes, for the lease machine."""

    @property
    def is_alone(self) -> bool:
        """Whether the cluster has no other node."""
        ...

    def why_closed(self, node_id: str) -> str:
        """Return why a node accepts no new work; "" if it accepts work."""
        ...

    def is_feasible(self, demand: Demand) -> bool:
        """Whether any node could ever run this request."""
        ...

    def class_over(self, owner: bytes, scheduling_class: int) -> None:
        """Forget a class of an owner's tasks that needs no more workers."""
        ...


class Spills(OtherNodesView, Protocol):
    """Asks other nodes for workers, for a node's own demands (see `spillback`)."""

    def put(self, row: ViewRow) -> None:
        """Store a node's row, which may be this node's own."""
        ...

    def remove(self, node_id: str) -> None:
        """Forget a node that is gone."""
        ...

    def forget(self, node_id: str) -> None:
        """Drop all requests to a node."""
        ...

    def use(self, placement: PlacementPolicy) -> None:
        """Set the cluster's placement policy."""
        ...

    def must_plan(self, strategy: Mapping[str, Any]) -> bool:
        """Whether a plan must consider the other nodes before any work starts here."""
        ...

    def plan(self, demands: Iterable[Demand], now: float, is_blind: bool = False) -> None:
        """Decide again how many workers each node is asked for. `is_blind`: whether no news of
        other nodes arrives, so that resources there may be free again although they seem taken.
        """
        ...

    def why(self, demand: Demand, now: float) -> Outcome | None:
        """Return what the strategy now decides for a waiting demand; None on a node that is
        alone.
        """
        ...

    def granted(
        self, node_id: str, owner: bytes, scheduling_class: int, hold: ResourceSet, lease: int
    ) -> None:
        """Count a worker that another node lends. `hold`: the amounts that the worker holds outside
        of bundles. `lease`: the number of the lease on that node.
        """
        ...

    def given_back(self, node_id: str) -> None:
        """Note that a node got back a worker that it had lent."""
        ...

    def owner_gone(self, owner: bytes) -> None:
        """Forget the demands of a process of this node that has ended."""
        ...


class NoOtherNodes:
    """The view of other nodes on a node that is alone: there are none, so none is asked."""

    is_alone = True

    def why_closed(self, node_id: str) -> str:
        """Return that the node does not exist, because there are no other nodes."""
        return "does not exist or is not alive"

    def is_feasible(self, demand: Demand) -> bool:
        """Return False, because there are no other nodes."""
        return False

    def class_over(self, owner: bytes, scheduling_class: int) -> None:
        """Do nothing."""

    def put(self, row: ViewRow) -> None:
        """Do nothing."""

    def remove(self, node_id: str) -> None:
        """Do nothing."""

    forget = given_back = remove

    def owner_gone(self, owner: bytes) -> None:
        """Do nothing."""

    def use(self, placement: PlacementPolicy) -> None:
        """Do nothing."""

    def must_plan(self, strategy: Mapping[str, Any]) -> bool:
        """Return False: all work starts on this node."""
        return False

    def plan(self, demands: Iterable[Demand], now: float, is_blind: bool = False) -> None:
        """Do nothing."""

    def why(self, demand: Demand, now: float) -> Outcome | None:
        """Return None: there is no strategy that chooses among nodes."""
        return None

    def granted(
        self, node_id: str, owner: bytes, scheduling_class: int, hold: ResourceSet, lease: int
    ) -> None:
        """Do nothing."""
