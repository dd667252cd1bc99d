"""Lightning's processes as members of a gang: a plug-in of its Trainer and of Fabric.

    Trainer(plugins=[PhalanxEnvironment()], num_nodes=..., devices=...)

Lightning finds its way without this, by torchrun's variables; this says so by name, and fails where
there is no gang.
"""

from __future__ import annotations

import os

from lightning.fabric.plugins.environments import ClusterEnvironment


class PhalanxEnvironment(ClusterEnvironment):
    """See ClusterEnvironment."""

    @property
    def creates_processes_externally(self) -> bool:
        """Members are started by the cluster."""
        return True

    @property
    def main_address(self) -> str:
        """Rank 0's."""
        return os.environ["MASTER_ADDR"]

    @property
    def main_port(self) -> int:
        """A port that is free there."""
        return int(os.environ["MASTER_PORT"])

    @staticmethod
    def detect() -> bool:
        """Whether this process is a member of a gang."""
        return "PHALANX_JOB" in os.environ and "RANK" in os.environ

    def world_size(self) -> int:
        """How many members the gang has."""
        return int(os.environ["WORLD_SIZE"])

    def set_world_size(self, size: int) -> None:
        """It is the gang's: Lightning's own reckoning has to agree. Raises ValueError."""
        if size != self.world_size():
            raise ValueError(
                f"devices * num_nodes is {size}, and the gang has {self.world_size()} members: "
                "one member is one process."
            )

    def global_rank(self) -> int:
        """This member's rank."""
        return int(os.environ["RANK"])

    def set_global_rank(self, rank: int) -> None:
        """It is the gang's; ranks of one node need not follow each other."""

    def local_rank(self) -> int:
        """Among the members on this node."""
        return int(os.environ["LOCAL_RANK"])

    def node_rank(self) -> int:
        """This node's number within the gang."""
        return int(os.environ["NODE_RANK"])
