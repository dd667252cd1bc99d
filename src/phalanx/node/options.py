"""Options of a cluster for its nodes."""

from __future__ import annotations

import msgspec

from phalanx.scheduler.placement.placement_policy import PlacementPolicy

PATIENCE_S = 60.0
"""Seconds that an unused node waits for a lost head (see MembershipOptions)."""


class SpillOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How the cluster spreads its tasks.

    `placement`: the policy that chooses among nodes; a joining node gets it from the head.
    `threshold`: the number of missing workers for which no other node is asked. Tasks wait on their
    own node for that many workers.
    """

    placement: PlacementPolicy = PlacementPolicy()
    threshold: int = 0
