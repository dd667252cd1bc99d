"""What the scheduler on a Ray cluster is started with, and under which names it is found."""

from __future__ import annotations

import msgspec

from phalanx.scheduler.placement.placement_policy import PlacementPolicy

NAMESPACE = "phalanx"
SCHEDULER = "phalanx-scheduler"
"""The scheduler's name among Ray's actors."""
NODE_AGENT = "phalanx-node-agent-"
"""Node agents are named so, with the id of their Ray node."""
GROUP = "phx/"
"""Placement groups of ours are named so, with the gang's group in hex and the attempt."""


class SchedulerOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of a cluster's one scheduler; whoever starts it decides. Times are in seconds.

    Raises ValueError for times that are not above 0 and for a name that is no resource.
    """

    store: tuple[str, ...] = ("kv",)
    """Where its tables are: `kv` is Ray's own key-value store, which lives as long as Ray's head;
    else addresses as `phalanx.storage` takes them."""
    gpu_resource: str = "GPU"
    """What Ray calls the devices that gangs get: `GPU`, or a resource of dedicated nodes."""
    ttl_s: float = 10.0
    """Without word from the scheduler for so long, a node's agent ends all that it runs; work is
    given to other nodes only after that."""
    margin_s: float = 1.0
    """How much longer than `ttl_s` a silent node is waited for."""
    reserve_s: float = 2.0
    """A reservation that Ray has not granted by then is withdrawn, and the gang planned anew."""
    topology: str = ""
    """How devices of every node are wired, see `declared_topology`; empty: as it is found."""
    placement: PlacementPolicy = PlacementPolicy()
    """The policy by which gangs and jobs find their nodes."""

    def __post_init__(self) -> None:
        for name in ("ttl_s", "margin_s", "reserve_s"):
            if not 0 < getattr(self, name) < float("inf"):
                raise ValueError(f"{name} is a time above 0 s, not {getattr(self, name)}")
        if not self.gpu_resource or self.gpu_resource in ("CPU", "memory"):
            raise ValueError(f"gpu_resource names devices, and {self.gpu_resource!r} does not")

    @property
    def heartbeat_s(self) -> float:
        """How often node agents report."""
        return min(0.5, self.ttl_s / 6)
