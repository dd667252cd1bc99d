"""What a node's lease machine asks about the other nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from phalanx.node.leases import Demand


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


class Nobody:
    """There are no other nodes."""

    is_alone = True

    def why_closed(self, node_id: str) -> str:
        """It is not there."""
        return "does not exist or is not alive"

    def is_feasible(self, demand: Demand) -> bool:
        """Nowhere."""
        return False
