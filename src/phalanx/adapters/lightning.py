"""A plug-in for Lightning's Trainer and Fabric: processes are members of a gang.

    Trainer(plugins=[PhalanxEnvironment()], num_nodes=..., devices=...)

Without this plug-in, Lightning finds the gang by torchrun's variables. With it, Lightning's log
names the plug-in, and a program outside a gang fails at once.
"""

from __future__ import annotations

import os

from lightning.fabric.plugins.environments import ClusterEnvironment


class PhalanxEnvironment(ClusterEnvironment):
    """Lightning's ClusterEnvironment for gangs."""

    @property
    def creates_processes_externally(self) -> bool:
        """Return True: the cluster, and not Lightning, starts the members' processes."""
        return True

    @property
    def main_address(self) -> str:
        """The address of rank 0."""
        return os.environ["MASTER_ADDR"]

    @property
    def main_port(self) -> int:
        """A port that is free at rank 0's address."""
        return int(os.environ["MASTER_PORT"])

    @staticmethod
    def detect() -> bool:
        """Whether this process is a member of a gang."""
        return "PHALANX_JOB" in os.environ and "RANK" in os.environ

    def world_size(self) -> int:
        """Return the number of members of the gang."""
        return int(os.environ["WORLD_SIZE"])

    def set_world_size(self, size: int) -> None:
        """Check that Lightning's own size agrees with the gang's. Raises ValueError."""
        if size != self.world_size():
            raise ValueError(
                f"devices * num_nodes is {size}, but the gang has {self.world_size()} members: "
                "each member is one process."
            )

    def global_rank(self) -> int:
        """Return this member's rank."""
        return int(os.environ["RANK"])

    def set_global_rank(self, rank: int) -> None:
        """Do nothing: the gang sets the rank. The rank that Lightning computes assumes that the
        ranks on one node are consecutive, which they need not be.
        """

    def local_rank(self) -> int:
        """Return the number of this member among the members on its node."""
        return int(os.environ["LOCAL_RANK"])

    def node_rank(self) -> int:
        """Return this node's number within the gang."""
        return int(os.environ["NODE_RANK"])
