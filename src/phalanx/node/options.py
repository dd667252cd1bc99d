"""What a cluster can choose about its nodes."""

from __future__ import annotations

import msgspec

from phalanx.scheduler.placement.placement_policy import PlacementPolicy

PATIENCE_S = 60.0
"""A node that nothing needs waits so long for a head that was lost; see MembershipOptions."""


class SpillOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How this cluster spreads its tasks.

    `placement`: the policy that chooses among nodes, which the head tells a node that joins.
    `threshold`: so many workers may be waited for on this node before others are asked.
    """

    placement: PlacementPolicy = PlacementPolicy()
    threshold: int = 0
