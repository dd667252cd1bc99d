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
    """The settings of a node's membership in a cluster. Times are in seconds."""

    host: str = "127.0.0.1"
    """The address on which this node's own gateway listens."""
    port: int = 0
    token_file: str = ""
    insecure: bool = False
    patience_s: float = PATIENCE_S
    """Seconds for which the node waits for a lost head, as in MembershipOptions."""
    comes_back: bool = False
    """Whether the node was in the cluster before, as in MembershipOptions."""
    formers: list[str] = []
    """The ids of earlier processes of this node, as in `Join`."""


class NodeConfig(msgspec.Struct, kw_only=True):
    """The configuration of a node."""

    session: sessions.Session
    resources: dict[str, float]
    labels: dict[str, str]
    object_store_bytes: int
    node_id: str
    node_name: str = ""
    """The name of the node for display; "" for the machine's name."""
    machine: MachineShare | None = None
    """The node's share of its machine, as in `Join`."""
    preload: list[str] = []
    unit_resources: tuple[str, ...] = ACCELERATORS
    prestart: int = 0
    memory_limit: float = MEMORY_LIMIT
    lives_with_driver: bool = True
    topology: str = ""
    """How the devices are wired (see `declared_topology`); "" if that is not known."""
    ports: str = ""
    """The ports that gangs may use on the node, in the form of `parse_ports`; "" for the usual
    ports.
    """
    devices: str = ""
    """The file from which the readings of GPUs come; "" to read their driver."""
    checks: dict[str, str] = {}
    """Shell commands that check whether the node works properly, by name."""
    check_rules: CheckRules = CheckRules()
    spilling: SpillOptions = SpillOptions()
    settings: SystemSettings = SystemSettings()
    """The system settings, if this node alone is the cluster."""
    member: MemberConfig | None = None
    """The cluster that the node joins; None if the node is a cluster by itself."""
    addresses: list[str] = []
    """HOST:PORT of the cluster's head, then of each standby; empty for a cluster of one machine."""

    @property
    def address(self) -> str:
        """HOST:PORT of the cluster's first head; "" for a cluster of one machine."""
        return self.addresses[0] if self.addresses else ""

    ready_fd: int = -1
    """The descriptor to which a daemon writes that it has joined, or why it cannot join."""
    parent_fd: int = -1
    """A pipe whose other end keeps the node alive: when that end closes, the node ends."""
    log: str = ""
    """The file of the node's log; "" for standard error and a file that is deleted with the
    session.
    """
    keeps_commands: bool = False
    """Whether commands of jobs continue when the node's process has ended, until its next process
    takes them over.
    """
    is_private: bool = False
    """Whether `init(address="auto")` skips this daemon."""
    launch: str = ""
    """The socket of phalanx-launch, through which jobs run under the accounts of their submitters;
    "" if they run under the node's account.
    """
    shared_dir: str = ""
    """The directory with the socket that the head offers to other accounts; "" if the head is on
    another machine.
    """
