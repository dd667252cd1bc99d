"""The options of the scheduler on a Ray cluster, and the names of its actors."""

from __future__ import annotations

import msgspec

from phalanx.scheduler.placement.placement_policy import PlacementPolicy

NAMESPACE = "phalanx"
SCHEDULER = "phalanx-scheduler"
"""The scheduler's name among Ray's actors."""
NODE_AGENT = "phalanx-node-agent-"
"""The prefix of the names of node agents; the id of the agent's Ray node follows."""
GROUP = "phx/"
"""The prefix of the names of Phalanx's placement groups in Ray; the gang's group in hex and the
attempt follow.
"""


class SchedulerOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options of a cluster's scheduler, given by the program that starts it. Times are in
    seconds. Raises ValueError for a time that is not above 0, and for an invalid name of a
    resource.
    """

    store: tuple[str, ...] = ("kv",)
    """The store of the tables. `kv` is Ray's own key-value store, which lives as long as Ray's
    head. Other values are addresses, as `phalanx.storage` takes them.
    """
    gpu_resource: str = "GPU"
    """Ray's resource for gangs' devices: `GPU`, or a resource that only dedicated nodes have."""
    ttl_s: float = 10.0
    """Seconds without a message from the scheduler after which a node's agent ends all work that it
    runs. The scheduler gives the work to other nodes only later.
    """
    margin_s: float = 1.0
    """Seconds in addition to `ttl_s` for which the scheduler waits for a silent node."""
    reserve_s: float = 2.0
    """Seconds after which a reservation that Ray has not granted is withdrawn, and its gang is
    planned again.
    """
    topology: str = ""
    """The wiring of every node's devices (see `declared_topology`); empty: each node finds its own
    wiring.
    """
    placement: PlacementPolicy = PlacementPolicy()
    """The policy by which gangs and jobs are placed on nodes."""

    def __post_init__(self) -> None:
        for name in ("ttl_s", "margin_s", "reserve_s"):
            if not 0 < getattr(self, name) < float("inf"):
                raise ValueError(f"{name} must be a time above 0 s, not {getattr(self, name)}")
        if not self.gpu_resource or self.gpu_resource in ("CPU", "memory"):
            raise ValueError(f"gpu_resource must name a device resource, not {self.gpu_resource!r}")

    @property
    def heartbeat_s(self) -> float:
        """Seconds between the reports of a node agent."""
        return min(0.5, self.ttl_s / 6)
