"""Handles nodes that join. Decides which nodes may join, sends them what they must know, and
compares what they hold with the head's records.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, Protocol

from phalanx.errors import StaleNodeError
from phalanx.head.actors.control import ActorControl
from phalanx.head.clock import WatchedClock
from phalanx.head.devices import Devices
from phalanx.head.draining import Draining
from phalanx.head.drivers import Drivers
from phalanx.head.event_gathering import EventGathering
from phalanx.head.events.nodes import NodeRecorder
from phalanx.head.events.unplaceable import Unplaceable
from phalanx.head.gangs.interface import GangSchedulerInterface
from phalanx.head.groups.table import GroupTable
from phalanx.head.machines import MEMORY, machine_fault, memory_left, name_fault
from phalanx.head.nodes.directory import NodeDirectory
from phalanx.head.nodes.record import NodeRecord
from phalanx.head.outbox import Outbox
from phalanx.model.node_deaths import LOST
from phalanx.model.system_settings import SystemSettings
from phalanx.observe import cluster_events
from phalanx.protocol.cluster_messages import SetTotals, View, ViewRow
from phalanx.protocol.membership_messages import Expelled, Join, Joined
from phalanx.protocol.messages import PROTOCOL_VERSION
from phalanx.protocol.report_messages import NodeReport
from phalanx.scheduler.devices.cards import without_modes
from phalanx.scheduler.placement.placement_policy import PlacementPolicy


class Parts(Protocol):
    """The parts of a head that take part when a node joins."""

    outbox: Outbox
    clock: WatchedClock
    nodes: NodeDirectory
    events: EventGathering
    drivers: Drivers
    actors: ActorControl
    gangs: GangSchedulerInterface
    group_table: GroupTable
    devices: Devices
    draining: Draining
    unplaceable: Unplaceable
    placement: PlacementPolicy
    settings: SystemSettings
    standbys: tuple[str, ...]

    def node_changed(self, record: NodeRecord) -> None:
        """Store and publish a node whose totals have changed."""
        ...


_KNOCKS_COUNT_S = 30.0
"""Seconds for which the status mentions a node of another version after the node's last attempt to
join.
"""
_MOST_OTHERS = 10_000


class _OtherVersion(NamedTuple):
    """A node of another version: its display name, and the time of its last attempt to join."""

    name: str
    version: int
    at: float


class Joining:
    """Decides which nodes may join a head."""

    def __init__(
        self, head: Parts, cluster: str, recorder: NodeRecorder, is_system: bool = False
    ) -> None:
        """`cluster`: the cluster's name in the head's store. With "" the head accepts nodes of any
        cluster. `is_system`: whether work runs under its owners' accounts.
        """
        self._is_system = is_system
        self._head = head
        self._cluster = cluster
        self._recorder = recorder
        self._foreign: dict[str, str] = {}
        """The host name of each node that was refused because it belongs to another cluster."""

        self._others: dict[bytes, _OtherVersion] = {}
        """The nodes that use another version of the protocol, by the prefix of their processes'
        ids.
        """

    def troubles(self, now: float) -> list[str]:
        """Return sentences about refused nodes, for display; empty when no node was refused."""
        out = []
        if self._foreign:
            hosts = ", ".join(sorted(set(self._foreign.values())))
            out.append(
                f"{len(self._foreign)} nodes of another cluster were refused, on {hosts}: if "
                "this head should be theirs, it was started on the wrong store"
            )
        fresh = {
            prefix: one
            for prefix, one in self._others.items()
            if now < one.at + _KNOCKS_COUNT_S and not self._is_given_up(prefix)
        }
        self._others = fresh
        if fresh:
            said = ", ".join(
                sorted({f"{one.name} (version {one.version})" for one in fresh.values()})
            )
            out.append(
                f"{len(fresh)} nodes use another version of the protocol than this head "
                f"(version {PROTOCOL_VERSION}): {said}. They get no new work; their running work "
                "continues and is not started elsewhere until they end. Install one release "
                "everywhere (docs/howto/cluster.md, Upgrades)"
            )
        return out

    def _is_given_up(self, prefix: bytes) -> bool:
        record = self._head.nodes.of_prefix(prefix)
        return record is not None and not self._head.nodes.is_alive(record.node_id)

    def knocked(self, prefix: bytes, version: int, host: str, now: float) -> bool:
        """Note that a node of another protocol version asks to join. While the node repeats its
        request, its work counts as running. Returns whether this head has declared the node dead.
        The node must then end its work, which may already run elsewhere.
        """
        nodes = self._head.nodes
        record = nodes.of_prefix(prefix)
        name = host if record is None else record.hostname or record.node_id[:12]
        if record is None and len(self._others) >= _MOST_OTHERS:
            return False
        self._others[prefix] = _OtherVersion(name=name, version=version, at=now)
        if record is None:
            return False
        if self._is_given_up(prefix):
            return True
        reason = (
            f"it uses version {version} of the protocol, "
            f"and this head uses version {PROTOCOL_VERSION}"
        )
        if nodes.refused(record.node_id, reason, now):
            self._recorder.refused(record, reason)
        return False

    def join(self, prefix: bytes, message: Join, now: float) -> None:
        """Handle a node's request to join the cluster, for the first time or again."""
        head = self._head
        row = message.row
        if self._cluster and message.cluster not in ("", self._cluster):
            self._foreign[row.node_id] = message.hostname
            reason = f"it is the head of the cluster {self._cluster}, not of {message.cluster}"
            refusal = Expelled(reason, is_stale=True, is_foreign=True)
            head.outbox.send_to_stranger(prefix, refusal)
            return
        try:
            if row.prefix != prefix:
                raise ValueError("a node joins under its own prefix")
            report = NodeReport(available=row.available, devices=row.devices, cards=row.cards)
            entry = record_of(row, message.hostname, message.epoch, message.name)
            entry.machine = message.machine
            self._check_mode(message)
            entry.keeps_commands = message.keeps_commands
            self._check_place(entry)
            entry.began = head.clock.wall()
            record = head.nodes.join(now, entry, report)
        except (StaleNodeError, ValueError) as error:
            is_stale = isinstance(error, StaleNodeError)
            head.outbox.send_to_stranger(prefix, Expelled(str(error), is_stale))
            return
        self._others.pop(prefix, None)
        head.outbox.connect(record.node_id, prefix)
        for former in message.formers:
            self._succeed(former, record, message)
        self._note(record)
        joined = Joined(
            record.epoch,
            head.placement,
            self._cluster,
            head.settings,
            head.standbys,
            head.nodes.limits.lease,
        )
        head.outbox.send(prefix, joined)
        _, rows = head.nodes.changes_since(0)
        head.outbox.send(prefix, View(rows, is_whole=True))
        self._lower_memory(record)
        self._know_again(record, message, now)
        self._give_up(message.given_up, but=prefix)

    def _check_mode(self, message: Join) -> None:
        """Raise ValueError if the node would run the work of several people under its own
        account.
        """
        if self._is_system and not message.is_system:
            raise ValueError(
                "jobs of this cluster run as their submitters, which this node cannot do: start "
                "phalanx-launch on its machine, and the node with --system"
            )

    def _succeed(self, former: str, record: NodeRecord, message: Join) -> None:
        """Let a node continue with the members of an earlier process of the same node. The head
        declares the earlier process dead.
        """
        nodes = self._head.nodes
        known = nodes.get(former)
        if known is None or not is_next_process(known, record, self._is_connected(known)):
            return
        self._head.gangs.succeeded(former, record.node_id, message.bundles)
        nodes.succeeded(former, record.node_id)

    def _is_connected(self, record: NodeRecord) -> bool:
        return self._head.nodes.is_alive(record.node_id) and self._head.outbox.is_connected(
            record.prefix
        )

    def _check_place(self, entry: NodeRecord) -> None:
        """Raise ValueError for a new node if another node has its name, or if the nodes of its
        machine would together offer more than the machine has. A node that comes back is not
        checked again, because its work is running.
        """
        if self._head.nodes.get(entry.node_id) is not None:
            return
        living = self._head.nodes.living()
        connected = [one for one in living if self._head.outbox.is_connected(one.prefix)]
        fault = name_fault(entry, connected) or machine_fault(entry, connected)
        if fault is not None:
            raise ValueError(fault)

    def _lower_memory(self, record: NodeRecord) -> None:
        """Reduce a node's memory to the amount that the other nodes on its machine leave."""
        left = memory_left(record, self._head.nodes.living())
        if left is not None:
            totals = {MEMORY: left}
            self._head.nodes.check_totals(record.node_id, totals)
            self._head.outbox.send(record.prefix, SetTotals(totals))

    def _note(self, record: NodeRecord) -> None:
        self._recorder.joined(record)
        self._head.events.record(
            cluster_events.NodeJoined(
                at=self._head.clock.wall(),
                node=record.prefix.hex(),
                hostname=record.hostname,
                epoch=record.epoch,
            )
        )

    def _know_again(self, record: NodeRecord, message: Join, now: float) -> None:
        """Let each part of the head compare its records with what the joining node holds."""
        head = self._head
        head.drivers.node_joined(record.prefix)
        head.actors.node_joined(record, message.actors)
        others = head.gangs.inventory(record.node_id, message.bundles, now)
        head.group_table.inventory(record.node_id, others, message.bundles.ended, now)
        head.gangs.node_joined(record)
        head.devices.node_joined(record)
        head.draining.node_joined(record)

    def _give_up(self, prefixes: Iterable[bytes], but: bytes) -> None:
        """Declare nodes dead that an earlier head may have declared dead without recording it.
        Other nodes have already acted on these deaths.
        """
        for prefix in prefixes:
            record = self._head.nodes.of_prefix(prefix)
            if record is not None and prefix != but:
                self._head.nodes.leave(record.node_id, "an earlier head gave it up", LOST)

    def report(self, prefix: bytes, message: NodeReport, now: float) -> bool:
        """Handle a node's report. Returns whether the node's free resources have changed."""
        head = self._head
        record = head.nodes.of_prefix(prefix)
        if record is None:
            return False
        if message.total == record.totals:
            message.total = None
        number, message.number = message.number, 0
        is_asking, message.is_asking = message.is_asking, False
        before = head.nodes.last_report(record.node_id)
        try:
            changed = head.nodes.report(now, record.node_id, message)
        except StaleNodeError as error:
            head.outbox.send_to_stranger(prefix, Expelled(str(error), is_stale=True))
            return False
        head.outbox.reported(prefix, number, is_asking)
        self._recorder.judged(record, before, message)
        head.unplaceable.judge(amounts for amounts, _ in message.queued)
        if message.total is not None:
            head.node_changed(record)
        head.gangs.node_reported(record.node_id, changed)
        return changed


def is_next_process(former: NodeRecord, node: NodeRecord, is_connected: bool) -> bool:
    """Whether a node may continue with the members of the node `former`. That node must be gone. It
    must have had the same name, and have run on the same machine since the machine's last boot.
    `is_connected`: whether `former` is still connected.
    """
    machines = [None if one.machine is None else one.machine.key for one in (former, node)]
    is_same = former.name == node.name and machines[0] == machines[1]
    return former.node_id != node.node_id and is_same and not is_connected


def record_of(row: ViewRow, hostname: str, epoch: int, name: str = "") -> NodeRecord:
    """Return the record for a node that joins with this row."""
    return NodeRecord(
        node_id=row.node_id,
        prefix=row.prefix,
        host=row.host,
        port=row.port,
        hostname=hostname,
        name=name,
        totals=row.total,
        labels=row.labels,
        ports=row.ports,
        cards=without_modes(row.cards),
        limits=row.limits,
        epoch=epoch,
    )
