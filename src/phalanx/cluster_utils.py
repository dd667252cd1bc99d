"""Ray's `Cluster`: many nodes on one machine, for tests and for trials.

Each node is a real process with its own object store and workers, and is connected over TCP as
between machines. All nodes end with this process.

Example:
    cluster = Cluster()
    cluster.add_node(num_cpus=2)
    second = cluster.add_node(num_cpus=4, num_gpus=1)
    cluster.connect()
    cluster.remove_node(second)
    cluster.shutdown()
"""

from __future__ import annotations

import atexit
import contextlib
import os
import tempfile
import time
from typing import Any

from phalanx.api.session import init, is_initialized, shutdown
from phalanx.model.system_settings import SystemSettings
from phalanx.runtime.daemons.starting import (
    PRIVATE_ADDRESS,
    Daemon,
    HeadOptions,
    NodeOptions,
    link_cluster,
    start_head,
    start_node,
)
from phalanx.runtime.driver.starting import system_settings
from phalanx.runtime.os import kept_sessions
from phalanx.scheduler.placement.placement_policy import read_placement_policy

STORE_BYTES = 200 * 2**20
"""The size of each node's object store in bytes, if no other size is given."""
_CPUS = 1
cluster_not_supported = False
"""A name for Ray's programs: if it is true, they skip the parts that need a Cluster."""
_HOST = "127.0.0.1"
_IGNORED = (
    *("dashboard_host", "dashboard_port", "enable_object_reconstruction", "include_dashboard"),
    *("dashboard_agent_listen_port", "namespace"),
)


class ClusterNode:
    """One node that a `Cluster` started."""

    def __init__(self, daemon: Daemon) -> None:
        self.daemon = daemon

    @property
    def node_id(self) -> str:
        """The node's id in hex."""
        return self.daemon.announcement.node_id

    unique_id = node_id

    @property
    def pid(self) -> int:
        """The pid of the node's process, which is also the id of the group of its helper
        processes.
        """
        return self.daemon.process.pid

    @property
    def is_running(self) -> bool:
        """Whether the node's process runs."""
        return self.daemon.process.poll() is None

    def remaining_processes_alive(self) -> bool:
        """Whether the node's process runs. Its helper processes end with it."""
        return self.is_running

    any_processes_alive = remaining_processes_alive

    @property
    def address(self) -> str:
        """The cluster's head, as HOST:PORT."""
        return self.daemon.announcement.address

    gcs_address = address

    @property
    def address_info(self) -> dict[str, Any]:
        """The addresses of the cluster, and the node's id."""
        return {"address": self.address, "gcs_address": self.address, "node_id": self.node_id}

    def __repr__(self) -> str:
        return f"ClusterNode({self.node_id})"


class Cluster:
    """A head and any number of nodes on this machine.

    `store` is the place of the head's tables ("memory", a path, `redis://...`). `limits` decide
    when a silent node is dead (`period_s`, `misses`, `joining_s`, `restored_s`, in seconds or
    counts). `placement` is the policy by which nodes are chosen for work, as in `init`.
    """

    def __init__(
        self,
        initialize_head: bool = False,
        connect: bool = False,
        head_node_args: dict[str, Any] | None = None,
        shutdown_at_exit: bool = True,
        store: str | list[str] = "memory",
        limits: dict[str, float] | None = None,
        placement: str | dict[str, Any] | None = None,
    ) -> None:
        self.worker_nodes: set[ClusterNode] = set()
        self.head_node: ClusterNode | None = None
        self._directory = tempfile.mkdtemp(prefix="phx-", dir="/tmp")
        self._token_file = os.path.join(self._directory, "token")
        self._ends, self._alive = os.pipe()
        self._store = (store,) if isinstance(store, str) else tuple(store)
        self._limits = limits or {}
        self._placement = read_placement_policy(placement)
        self._settings = SystemSettings()
        self._head: Daemon | None = None
        self._address = ""
        self._link = ""
        if shutdown_at_exit:
            atexit.register(self.shutdown)
        if initialize_head or connect:
            self.add_node(**(head_node_args or {}))
        if connect:
            self.connect()

    @property
    def address(self) -> str:
        """The cluster's head as HOST:PORT, for `init(address=...)`."""
        return self._address

    gcs_address = redis_address = address

    @property
    def head_pid(self) -> int | None:
        """The pid of the head's process; None without a head."""
        return None if self._head is None else self._head.process.pid

    @property
    def temp_dir(self) -> str:
        """The directory of this cluster's sessions."""
        return os.path.join(self._directory, "r")

    def start_head(self) -> None:
        """Start the head without a node. After `kill_head`, the head gets its earlier address."""
        host, port = (_HOST, 0)
        if self._address:
            port = int(self._address.rpartition(":")[2])
        options = HeadOptions(
            host=host,
            port=port,
            token_file=self._token_file,
            store=self._store,
            marks=os.path.join(self._directory, "marks"),
            limits=self._limits,
            placement=self._placement,
            settings=self._settings,
            temp_dir=self.temp_dir,
            is_private=True,
        )
        self._head = start_head(options, self._ends)
        self._address = self._head.announcement.address
        self._link = link_cluster(self._address, self.temp_dir)
        os.environ[PRIVATE_ADDRESS] = self._address

    def kill_head(self) -> None:
        """End the head's process with SIGKILL; the nodes and their work continue."""
        if self._head is not None:
            self._head.kill()
            self._head = None

    def add_node(
        self,
        wait: bool = True,
        *,
        num_cpus: float = _CPUS,
        num_gpus: float = 0,
        resources: dict[str, float] | None = None,
        labels: dict[str, str] | None = None,
        object_store_memory: int = STORE_BYTES,
        topology: str = "",
        _system_config: dict[str, Any] | None = None,
        **options: Any,
    ) -> ClusterNode:
        """Start a node with these amounts, which the machine need not have. With the first node,
        the head is started, too.

        `_system_config` has the cluster's settings by Ray's names, and is allowed only with the
        first node (see docs/howto/ray.md). Further options are fields of `NodeOptions`. Ray's
        private options for its own processes (`_name`), and the options of its dashboard, have no
        effect. Raises SystemFailureError with the reason, and ValueError for a setting that is not
        allowed.
        """
        if self._head is None and not self._address:
            self._settings = system_settings(_system_config)
            self.start_head()
        ours = {
            name: value
            for name, value in options.items()
            if name[0] != "_" and name not in _IGNORED
        }
        total = {
            "CPU": float(num_cpus),
            "GPU": float(num_gpus),
            "memory": float(ours.pop("memory", 2**30)),
            "object_store_memory": float(object_store_memory),
            f"node:{_HOST}": 1.0,
            **(resources or {}),
        }
        if self.head_node is None:
            total["node:__internal_head__"] = 1.0
        node = ClusterNode(
            start_node(
                NodeOptions(
                    head=self._address,
                    resources={name: amount for name, amount in total.items() if amount},
                    labels=labels or {},
                    object_store_bytes=int(object_store_memory),
                    token_file=self._token_file,
                    temp_dir=self.temp_dir,
                    topology=topology,
                    is_private=True,
                    **ours,
                ),
                self._ends,
            )
        )
        if self.head_node is None:
            self.head_node = node
        else:
            self.worker_nodes.add(node)
        if wait and is_initialized():
            self.wait_for_nodes()
        return node

    def remove_node(self, node: ClusterNode, allow_graceful: bool = True) -> None:
        """End a node: with `allow_graceful` in order, otherwise by SIGKILL to all its processes at
        the same time.
        """
        if allow_graceful:
            node.daemon.stop()
        else:
            node.daemon.kill()
        self.worker_nodes.discard(node)
        if node is self.head_node:
            self.head_node = None

    def list_all_nodes(self) -> list[ClusterNode]:
        """Return all nodes that were started and not removed since."""
        first = [] if self.head_node is None else [self.head_node]
        return first + sorted(self.worker_nodes, key=lambda node: node.node_id)

    def remaining_processes_alive(self) -> bool:
        """Whether every node runs that was started and not removed since."""
        return all(node.remaining_processes_alive() for node in self.list_all_nodes())

    def wait_for_nodes(self, timeout: float = 30) -> None:
        """Wait until the driver in this process sees exactly these nodes alive. Raises
        TimeoutError.

        Without a driver, the method returns immediately, because a started node has already joined.
        """
        from phalanx.api.cluster import nodes

        if not is_initialized():
            return
        wanted = {node.node_id for node in self.list_all_nodes()}
        deadline = time.monotonic() + timeout
        while True:
            alive = {row["NodeID"] for row in nodes() if row["Alive"]}
            if alive == wanted:
                return
            if time.monotonic() > deadline:
                raise TimeoutError(
                    f"After {timeout} s {len(alive)} nodes are alive instead of {len(wanted)}."
                )
            time.sleep(0.02)

    def connect(self, namespace: str | None = None) -> None:
        """Make this process a driver of the cluster, on its first node.

        Raises RuntimeError when there is no node yet.
        """
        if self.head_node is None:
            raise RuntimeError("The cluster has no node yet: add_node() starts one.")
        init(address=self._address, namespace=namespace)

    def shutdown(self) -> None:
        """End the driver, all nodes and the head, and delete their files."""
        import shutil

        with contextlib.suppress(Exception):
            if is_initialized():
                shutdown()
        for node in self.list_all_nodes():
            node.daemon.kill()
        self.head_node = None
        self.worker_nodes.clear()
        self.kill_head()
        if os.environ.get(PRIVATE_ADDRESS) == self._address:
            del os.environ[PRIVATE_ADDRESS]
        if self._link:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self._link)
        for fd in (self._ends, self._alive):
            with contextlib.suppress(OSError):
                os.close(fd)
        self._ends = self._alive = -1
        if os.path.isdir(self.temp_dir):
            kept_sessions.end_members(self.temp_dir)
        for session in os.listdir(self.temp_dir) if os.path.isdir(self.temp_dir) else ():
            shutil.rmtree(f"/dev/shm/phalanx-{os.getuid()}-{session}", ignore_errors=True)
        shutil.rmtree(self._directory, ignore_errors=True)
        atexit.unregister(self.shutdown)
