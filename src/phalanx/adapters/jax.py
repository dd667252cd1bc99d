"""JAX's processes as members of a gang. Once this module is imported, JAX's `initialize()` finds
the gang.

import jax, phalanx.adapters.jax
jax.distributed.initialize()
"""

from __future__ import annotations

import os

from jax._src import clusters


class PhalanxCluster(clusters.ClusterEnv):
    """JAX's ClusterEnv for gangs. The class registers itself with JAX."""

    name: str = "phalanx"

    @classmethod
    def is_env_present(cls) -> bool:
        """Whether this process is a member of a gang."""
        return "PHALANX_JOB" in os.environ and "RANK" in os.environ

    @classmethod
    def get_coordinator_address(
        cls, timeout_secs: int | None = None, override_coordinator_port: str | None = None
    ) -> str:
        """Return the address of rank 0."""
        port = override_coordinator_port or os.environ["MASTER_PORT"]
        return f"{os.environ['MASTER_ADDR']}:{port}"

    @classmethod
    def get_process_count(cls) -> int:
        """Return the number of members of the gang."""
        return int(os.environ["WORLD_SIZE"])

    @classmethod
    def get_process_id(cls) -> int:
        """Return this member's rank."""
        return int(os.environ["RANK"])

    @classmethod
    def get_local_process_id(cls) -> int | None:
        """Return None: a member sees only the devices that it holds, and uses all of them."""
        return None
