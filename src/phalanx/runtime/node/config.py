"""What a node's process is started with."""

from __future__ import annotations

import msgspec

from phalanx.model.options import ACCELERATORS
from phalanx.model.system_settings import SystemSettings
from phalanx.node.checks import CheckRules
from phalanx.node.options import PATIENCE_S, SpillOptions
from phalanx.runtime.os import session as sessions
from phalanx.scheduler.placement.memory_pressure import MEMORY_LIMIT


class MemberConfig(msgspec.Struct, kw_only=True):
    """How a node belongs to a cluster. Times are in seconds."""

    head: tuple[str, int]
    """Address of the head."""
    host: str = "127.0.0.1"
    """Where this node's own gateway listens."""
    port: int = 0
    token_file: str = ""
    insecure: bool = False
    patience_s: float = PATIENCE_S
    """See MembershipOptions."""
    comes_back: bool = False
    """See MembershipOptions."""


class NodeConfig(msgspec.Struct, kw_only=True):
    """What a node is started with."""

    session: sessions.Session
    resources: dict[str, float]
    labels: dict[str, str]
    object_store_bytes: int
    node_id: str
    node_name: str = ""
    """What people call it; empty: as its machine."""
    preload: list[str] = []
    unit_resources: tuple[str, ...] = ACCELERATORS
    prestart: int = 0
    memory_limit: float = MEMORY_LIMIT
    lives_with_driver: bool = True
    topology: str = ""
    """How the devices are wired, see `declared_topology`; empty: not known."""
    ports: str = ""
    """The ports that gangs may use here, as `parse_ports` reads them; empty: the usual ones."""
    devices: str = ""
    """The file that GPUs are read from; empty: their driver."""
    checks: dict[str, str] = {}
    """Programs that say whether the node is well, by name, for a shell."""
    check_rules: CheckRules = CheckRules()
    spilling: SpillOptions = SpillOptions()
    settings: SystemSettings = SystemSettings()
    """Of a cluster that is this node alone."""
    member: MemberConfig | None = None
    """The cluster that it joins; None: it is a cluster of its own."""
    address: str = ""
    """HOST:PORT of the cluster's head; empty for a cluster of one."""
    ready_fd: int = -1
    """Where a daemon says that it has joined, or why it cannot."""
    parent_fd: int = -1
    """The node ends when the other end of this pipe closes."""
    log: str = ""
    """The file that it writes to what people may want to know; empty: one that goes with the
    session, and its standard error."""
    is_private: bool = False
    """Whether `init(address="auto")` passes it over."""
