"""What a cluster can choose about its nodes."""

from __future__ import annotations

import msgspec


class SpillOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How this cluster spreads its tasks.

    `global_scheduler`: "hybrid" (Ray's DEFAULT: nodes below half use first, the local one
    preferred) or "least-waiting" (seed 003: queue x mean run time + missing bytes / bandwidth).
    `threshold`: so many workers may be waited for on this node before others are asked.
    """

    global_scheduler: str = "hybrid"
    threshold: int = 0
