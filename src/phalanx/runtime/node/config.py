"""The configuration of a node's process."""

from __future__ import annotations

import msgspec

from phalanx.model.machines import MachineShare
from phalanx.model.options import ACCELERATORS
from phalanx.model.system_settings import SystemSettings
from phalanx.node.checks import CheckRules
from phalanx.node.options import PATIENCE_S, SpillOptions
from phalanx.runtime.os import session as sessions
from phalanx.scheduler.placement.memory_pressure import MEMORY_LIMIT


class MemberConfig(msgspec.Struct, kw_only=True):
    """How a node belongs to a cluster. Times are in seconds."""

    head: tuple[str, int]
    """The address of the head."""
    host: str = "127.0.0.1"
    """The address where this node's own gateway listens."""
    port: int = 0
    token_file: str = ""
    insecure: bool = False
    patience_s: float = PATIENCE_S
    """As in MembershipOptions."""
    comes_back: bool = False
    """As in MembershipOptions."""
    formers: list[str] = []
    """As in Join."""


class NodeConfig(msgspec.Struct, kw_only=True):
    """The configuration of a node."""

    session: sessions.Session
    resources: dict[str, float]
    labels: dict[str, str]
    object_store_bytes: int
    node_id: str
    node_name: str = ""
    """The name for display; empty: the machine's name."""
    machine: MachineShare | None = None
    """As in Join."""
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
    """Shell commands that report whether the node is healthy, by name."""
    check_rules: CheckRules = CheckRules()
    spilling: SpillOptions = SpillOptions()
    settings: SystemSettings = SystemSettings()
    """The settings of a cluster of this node alone."""
    member: MemberConfig | None = None
    """The cluster that the node joins; None: it is a cluster of its own."""
    address: str = ""
    """HOST:PORT of the cluster's head; empty for a cluster of one machine."""
    ready_fd: int = -1
    """The descriptor to which a daemon writes that it has joined, or why it cannot."""
    parent_fd: int = -1
    """The node ends when the other end of this pipe closes."""
    log: str = ""
    """The file of its log; empty: a file that is deleted with the session, and standard error."""
    keeps_commands: bool = False
    """Whether commands of jobs go on when the node's process ends, for its next process."""
    is_private: bool = False
    """Whether `init(address="auto")` skips it."""
    launch: str = ""
    """The socket of phalanx-launch, through which jobs run as their submitters; empty: they run as
    the node's account."""
    shared_dir: str = ""
    """The directory with the socket of the head for other accounts, if it is on this machine."""
