"""The description of a node, and the effects that its shell provides."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from phalanx.model.system_settings import DEFAULT_SETTINGS, SystemSettings
from phalanx.node.checks import CheckPrograms, CheckRules
from phalanx.node.devices import DeviceReading
from phalanx.node.directories import DirectoryReading
from phalanx.node.fork_watch import ForkServerEffects
from phalanx.node.gpu_shares import MpsDaemons, NoMpsDaemons
from phalanx.node.kept_members import Keeping, NotKeeping
from phalanx.node.machine_use import MachineReading
from phalanx.node.member_effects import CommandEffects, JobFiles, MemoryMeter
from phalanx.node.node_links import Connections
from phalanx.node.notes import Note
from phalanx.node.object_room import SpillFiles
from phalanx.node.object_store import ObjectStore, StoreFiles, Transfers
from phalanx.node.usage import NoUsageMeter, UsageMeter
from phalanx.node.worker_output import NodeLogs
from phalanx.node.worker_processes import ForkEffects
from phalanx.observe.metrics.meter import Meter
from phalanx.protocol.cluster_messages import ViewRow
from phalanx.scheduler.devices.instances import NodeResources


@dataclass(frozen=True, kw_only=True)
class NodeSetup:
    """The description of a node."""

    node_id: str
    resources: NodeResources
    labels: dict[str, str]
    ports: str = ""
    """The ports that gangs may use on the node, in the form of `parse_ports`; "" for the usual
    ports.
    """
    limits: Mapping[str, int] = field(default_factory=dict)
    """The largest number of devices that the node can have, by resource. A resource has an entry
    only if the node was given some of the machine's devices and not all of them.
    """
    address: str = ""
    """The address of the cluster's head, for display; "" for a node that is a whole cluster."""
    max_workers: int = 0
    """The largest number of worker processes at a time; 0 for any number."""
    prestart: int = 0
    """The number of workers that are started when a driver registers."""
    object_store_bytes: int = 0
    checks: CheckRules = field(default_factory=CheckRules)
    disk: str = ""
    """The place of objects for which memory has no room, for display."""
    python: str = ""
    """The version of Python of the node's workers, such as 3.11."""
    command_groups: Callable[[], str] = str
    """Returns how the node keeps the processes of each command together (see
    `model.command_groups`).
    """
    settings: SystemSettings = DEFAULT_SETTINGS
    """The settings of the cluster, if the node is a whole cluster. Any other node gets the settings
    from the head.
    """


@dataclass(frozen=True, kw_only=True)
class NodeEffects:
    """The effects that a shell provides for a node. Each part of the node declares and gets only
    the effects that it uses.
    """

    clock: Callable[[], float]
    """Returns the process's own time in seconds (see `model.own_time`). It never goes backwards."""
    monotonic: Callable[[], float]
    """Returns seconds that also pass while the process or its machine stands still."""
    wall: Callable[[], float]
    """Returns the seconds since the epoch."""
    make_unique: Callable[[int], bytes]
    """Returns the requested number of bytes. No two calls return the same bytes."""
    connections: Connections
    forks: ForkEffects
    fork_server: ForkServerEffects
    commands: CommandEffects
    keeping: Keeping = field(default_factory=NotKeeping)
    job_files: JobFiles
    directories: Callable[[ObjectStore], DirectoryReading]
    """Returns the object that reads the states of the directories in which the node works."""
    memory: MemoryMeter
    usage: UsageMeter
    process_usage: UsageMeter = field(default_factory=NoUsageMeter)
    """Measures drivers and workers while somebody looks at the node's page."""
    read_machine: Callable[[], MachineReading | None]
    """Reads the counters of the whole machine; None if that is not possible."""
    devices: DeviceReading
    checks: CheckPrograms
    mps: MpsDaemons = field(default_factory=NoMpsDaemons)
    store_files: StoreFiles
    spill_files: SpillFiles
    transfers: Transfers
    logs: NodeLogs
    is_port_free: Callable[[int], bool]
    """Returns whether a server could listen on this port at any address of this machine."""
    drain_output: Callable[[Callable[[], None]], None]
    """Calls its argument as soon as everything that workers have printed so far was passed on."""
    know_addresses: Callable[[Iterable[ViewRow]], None]
    """Stores the addresses of other nodes. The addresses are in these rows."""
    sweep: Callable[[], None]
    """Deletes the files that a dead node has left on this machine."""
    look: Callable[[Meter], None] | None
    """Sets those numbers of a meter that only the shell knows; None if no metrics are reported."""
    report_defect: Callable[[Exception], None]
    """Shows an internal error, which affected one order or one part of a tick."""
    note: Note
