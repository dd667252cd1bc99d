"""What a node is, and what its shell does for it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from phalanx.model.system_settings import DEFAULT_SETTINGS, SystemSettings
from phalanx.node.checks import CheckPrograms, CheckRules
from phalanx.node.devices import DeviceReading
from phalanx.node.directories import DirectoryReading
from phalanx.node.fork_watch import ForkServerEffects
from phalanx.node.local_processes import NodeLogs
from phalanx.node.member_effects import CommandEffects, JobFiles, MemoryMeter
from phalanx.node.node_links import Connections
from phalanx.node.notes import Note
from phalanx.node.object_room import SpillFiles
from phalanx.node.object_store import ObjectStore, StoreFiles, Transfers
from phalanx.node.usage import UsageMeter
from phalanx.node.worker_processes import ForkEffects
from phalanx.observe.metrics.meter import Meter
from phalanx.protocol.cluster_messages import ViewRow
from phalanx.scheduler.devices.instances import NodeResources


@dataclass(frozen=True, kw_only=True)
class NodeSetup:
    """What one node is."""

    node_id: str
    resources: NodeResources
    labels: dict[str, str]
    ports: str = ""
    """The ports that gangs may use here, as `parse_ports` reads them; empty: the usual ones."""
    limits: Mapping[str, int] = field(default_factory=dict)
    """So many numbered devices it can have at most, by resource, where it was shown some alone."""
    address: str = ""
    """Of the cluster's head, for people; empty for a node that is a cluster of its own."""
    max_workers: int = 0
    """So many worker processes there may be at a time; 0: any number."""
    prestart: int = 0
    """So many workers are started when a driver comes."""
    object_store_bytes: int = 0
    checks: CheckRules = field(default_factory=CheckRules)
    disk: str = ""
    """Where objects go that memory does not hold, for people."""
    python: str = ""
    """The version of its workers: 3.11, for instance."""
    settings: SystemSettings = DEFAULT_SETTINGS
    """Of the cluster, where this node is one by itself; others hear them from the head."""


@dataclass(frozen=True, kw_only=True)
class NodeEffects:
    """What a shell does for a node. Each part of the node gets those that it uses."""

    clock: Callable[[], float]
    """Seconds of the own time of the process, which never go back."""
    wall: Callable[[], float]
    """Seconds since the epoch."""
    make_unique: Callable[[int], bytes]
    """So many bytes that are never the same twice."""
    connections: Connections
    forks: ForkEffects
    fork_server: ForkServerEffects
    commands: CommandEffects
    job_files: JobFiles
    directories: Callable[[ObjectStore], DirectoryReading]
    """What looks at the directories that the node works in, some of which its objects fill."""
    memory: MemoryMeter
    usage: UsageMeter
    devices: DeviceReading
    checks: CheckPrograms
    store_files: StoreFiles
    spill_files: SpillFiles
    transfers: Transfers
    logs: NodeLogs
    is_port_free: Callable[[int], bool]
    """Whether a server could listen there, on any address of this machine."""
    drain_output: Callable[[Callable[[], None]], None]
    """Calls back once everything that workers have printed so far has been passed on."""
    know_addresses: Callable[[Iterable[ViewRow]], None]
    """Other nodes are reached at the addresses in their rows."""
    sweep: Callable[[], None]
    """Deletes what a node that died has left on this machine."""
    look: Callable[[Meter], None] | None
    """Puts what the shell knows into a meter, for metrics; None: nobody is told any."""
    report_defect: Callable[[Exception], None]
    """Shows an error of ours, which harmed one order or one part of a tick."""
    note: Note
