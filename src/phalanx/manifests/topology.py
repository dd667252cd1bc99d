"""The reading of the field networkTopology: how close to each other in the network a gang must be
placed.
"""

from __future__ import annotations

from phalanx.manifests.fields import Fields
from phalanx.model.jobs.topology import NetworkTopology


def read_topology(at: Fields) -> NetworkTopology | None:
    """Return the `networkTopology` of a job, partition or podgroup; at most one of its two bounds
    is set.
    """
    if not at.has("networkTopology"):
        at.raw("networkTopology")
        return None
    inner = at.fields("networkTopology")
    mode = inner.choice("mode", ("hard", "soft"), "hard")
    tier, name = inner.optional_whole("highestTierAllowed"), inner.text("highestTierName")
    inner.warn_unknown()
    if tier is not None and name:
        reason = "highestTierAllowed and highestTierName exclude each other"
        inner.error("", "topology_tier_and_name", reason)
    return NetworkTopology(
        mode="soft" if mode == "soft" else "hard", highest_tier=tier, highest_tier_name=name
    )
