"""The head's directory of nodes: living and dead nodes, and the last report of each."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

import msgspec

from phalanx.errors import StaleNodeError
from phalanx.head.changes import ChangeLog
from phalanx.head.nodes.expected import ExpectedNodes
from phalanx.head.nodes.liveness import CONNECTION_ENDED, PROCESS_ENDED, HealthLimits, NodeLiveness
from phalanx.head.nodes.record import NodeRecord, check_totals
from phalanx.head.nodes.rows import closed_devices, node_info, reason_of, view_row
from phalanx.model.holds import (
    CHECK,
    DIRECTORIES,
    DRAIN,
    HEALTH,
    RESTART,
    SHORTAGE,
    Hold,
    holds_text,
)
from phalanx.model.ids import PREFIX_BYTES
from phalanx.model.lifecycle import ALIVE, DEAD, DRAINING, NODE, move
from phalanx.model.node_deaths import LOST, ORDERLY
from phalanx.model.rows.cluster import NodeInfo
from phalanx.observe.checks import bad_checks_text
from phalanx.observe.device_health import reboot_text
from phalanx.protocol.cluster_messages import ViewRow
from phalanx.protocol.report_messages import NodeReport
from phalanx.scheduler.devices.cards import without_modes
from phalanx.scheduler.devices.quantities import to_units
from phalanx.scheduler.devices.sets import EMPTY, ResourceSet
from phalanx.scheduler.placement.cluster_nodes import ClusterNodes

KEEP_DEAD = 1_000
"""The number of dead nodes that are remembered."""


class NodeEffects(Protocol):
    """Requests that the directory makes to its shell."""

    def node_changed(self, record: NodeRecord) -> None:
        """Store and publish a node whose record has changed, for example because the node has
        joined or drains.
        """
        ...

    def node_held(self, record: NodeRecord, kind: str, hold: Hold | None) -> None:
        """Record that a node has one more hold or, if `hold` is None, one less. A hold is a reason
        to start no new work on the node.
        """
        ...

    def node_dead(self, record: NodeRecord, reason: str) -> None:
        """Store and publish a node's death. All work that ran there is lost."""
        ...


class NodeDirectory:
    """All nodes of the cluster."""

    def __init__(self, effects: NodeEffects, limits: HealthLimits | None = None) -> None:
        self.cluster = ClusterNodes()
        self._effects = effects
        self._records: dict[str, NodeRecord] = {}
        self._reports: dict[str, NodeReport] = {}
        self._prefixes: dict[bytes, str] = {}
        self.limits = limits or HealthLimits()
        self._alive = NodeLiveness(self.limits)
        self.expected = ExpectedNodes()
        self.has_commands: Callable[[str], bool] = lambda node_id: False
        """Returns whether any members of jobs have their places on a node."""
        self._told: dict[str, ViewRow] = {}
        """The rows that nodes were sent last, by node id. A row is made again only after the node
        that it describes has changed.
        """
        self._changes: ChangeLog[str] = ChangeLog()
        """The versions at which nodes last changed in a way that other nodes must know."""
        self._news: ChangeLog[str] = ChangeLog()
        """The versions at which nodes last changed in a way that listings show. A lost or restored
        connection is such a change.
        """
        self._dead: deque[str] = deque()

    def join(self, now: float, record: NodeRecord, report: NodeReport | None = None) -> NodeRecord:
        """Add a joining node, whether it joins for the first time or again. Returns the node's
        record. Without a `report`, the node's previous report stays valid until the next report.
        Raises StaleNodeError if the node was declared dead or is no longer known, or if another
        node has its prefix.
        """
        known = self._records.get(record.node_id)
        self._check(record, known)
        if known is not None and RESTART in known.holds:
            self.release(known.node_id, RESTART)
        joined = msgspec.structs.replace(record, epoch=1, state=ALIVE, reason="")
        if known is not None:
            joined.epoch = known.epoch + 1
            joined.state, joined.reason = known.state, known.reason
            joined.holds, joined.cordoned = known.holds, known.cordoned
            joined.devices, joined.began = known.devices, known.began
        self._alive.on_joined(joined.node_id, now)
        if report is not None:
            self._reports[joined.node_id] = report
        self._add(joined)
        self._effects.node_changed(joined)
        return joined

    def _check(self, record: NodeRecord, known: NodeRecord | None) -> None:
        if len(record.prefix) != PREFIX_BYTES:
            raise ValueError(f"a node's prefix has {PREFIX_BYTES} bytes, not {len(record.prefix)}")
        again = "It must come back as a new node, with another id and prefix."
        if known is not None and known.state == DEAD:
            raise StaleNodeError(f"Node {known.node_id} was declared dead: {known.reason}. {again}")
        if known is None and record.epoch:
            raise StaleNodeError(
                f"Node {record.node_id} joined before, but this head knows nothing of it. {again}"
            )
        holder = self._prefixes.get(record.prefix, record.node_id)
        if holder != record.node_id:
            raise StaleNodeError(
                f"Node {record.node_id} has the prefix {record.prefix.hex()} of node {holder}. "
                f"{again}"
            )
        if known is not None and known.prefix != record.prefix:
            raise StaleNodeError(
                f"Node {record.node_id} joined with the prefix {known.prefix.hex()} and comes "
                f"again with {record.prefix.hex()}. {again}"
            )

    def report(self, now: float, node_id: str, report: NodeReport) -> bool:
        """Handle a node's report. Returns whether the known resources of the node have changed.

        Raises StaleNodeError for a dead or unknown node. The caller must notify that node. Raises
        ValueError for invalid amounts.
        """
        record = self._records.get(node_id)
        if record is None or record.state == DEAD:
            why = "is not known here" if record is None else f"is dead: {record.reason}"
            raise StaleNodeError(f"Node {node_id} {why}. It must come back as a new node.")
        self._alive.on_report(node_id, now)
        if report.total is not None:
            record.totals = report.total
        record.devices = {name: len(left) for name, left in report.devices.items()}
        record.cards = without_modes(report.cards)
        is_news = report != self._reports[node_id] or report.total is not None
        if is_news:
            self._reports[node_id] = report
            self._note(node_id)
        # the report with which the node joined did not contain its health
        if is_news or record.holds:
            self._follow_health(record, report)
        if not (is_news or self.cluster.is_counted(node_id)):
            return False
        # The report is not new, but amounts that the head counted as taken may never have been
        # taken on the node.
        return self._put(record)

    def disconnected(self, node_id: str, now: float) -> None:
        """Note that a node's connection ended. Its process has ended, or the node may soon be
        back.
        """
        if self.is_alive(node_id):
            self._alive.on_disconnected(node_id, now)
            self._news.note(node_id)

    def refused(self, node_id: str, reason: str, now: float) -> bool:
        """Note that a running node may not join, for this reason. Returns whether the reason is
        new. The node does not count as dead while it repeats its request.
        """
        is_news = self._alive.on_refused(node_id, reason, now)
        if is_news:
            self._news.note(node_id)
        return is_news

    def tick(self, now: float) -> None:
        """Declare nodes dead that have been silent for too long."""
        self.expected.tick(now)
        for node_id in self._alive.overdue(now):
            # Otherwise an effect of another node's death has ended this node, too.
            if self.is_alive(node_id) and not self._awaits_next(node_id, now):
                self._die(node_id, self._alive.overdue_text(node_id), LOST)

    def _awaits_next(self, node_id: str, now: float) -> bool:
        """If the process of an overdue node has probably ended, begin to wait for the node's next
        process. Returns False if no next process is awaited, for example because no members there
        could continue.
        """
        is_gone = self._alive.absence(node_id) == CONNECTION_ENDED
        keeps = self._records[node_id].keeps_commands
        if not (keeps and is_gone and self.has_commands(node_id)):
            return False
        self._alive.on_process_ended(node_id, now)
        self.hold(node_id, RESTART, Hold(reason=PROCESS_ENDED))
        return True

    def is_expected(self, node_id: str) -> bool:
        """Whether the head is waiting for the node's next process."""
        return self._alive.is_expected(node_id)

    def succeeded(self, former: str, node_id: str) -> None:
        """Note that a node's next process has joined, and declare the node dead if it is not yet.

        On a slow machine the next process may join only after the node was declared dead. Even
        then, that process has the files of the node.
        """
        if (record := self._records.get(former)) is not None:
            record.next_id = node_id
        if self.is_alive(former):
            self._die(former, "its process has ended, and the next one has joined", ORDERLY)

    def latest(self, node_id: str) -> str:
        """Return the id of the latest process of a node. That process has the files of the earlier
        processes.
        """
        while (record := self._records.get(node_id)) is not None and record.next_id:
            node_id = record.next_id
        return node_id

    def hold(self, node_id: str, kind: str, hold: Hold) -> bool:
        """Add a reason why a node starts no new work, or change the deadline of a reason. Returns
        whether the node did not have the reason before. Raises ValueError for an unknown or dead
        node.
        """
        self.check_alive(node_id)
        record = self._records[node_id]
        known = record.holds.get(kind)
        if known is not None and msgspec.structs.replace(known, since=hold.since) == hold:
            return False
        record.holds = {**record.holds, kind: hold}
        self._holds_changed(record, kind, hold)
        return known is None

    def release(self, node_id: str, kind: str) -> bool:
        """Remove one reason why a node starts no new work. Without any reason left, the node takes
        work again. Returns False if the node did not have that reason. Raises ValueError for an
        unknown or dead node.
        """
        self.check_alive(node_id)
        record = self._records[node_id]
        if kind not in record.holds:
            return False
        record.holds = {name: hold for name, hold in record.holds.items() if name != kind}
        self._holds_changed(record, kind, None)
        return True

    def _holds_changed(self, record: NodeRecord, kind: str, hold: Hold | None) -> None:
        reason, state = holds_text(record.holds), DRAINING if record.holds else ALIVE
        if state != record.state:
            self._move(record, state, reason)
        else:
            record.reason = reason
            self._note(record.node_id)
        self._effects.node_changed(record)
        self._effects.node_held(record, kind, hold)

    def _follow_health(self, record: NodeRecord, report: NodeReport) -> None:
        """Let the node start no new work while a device needs it empty, a check fails, a directory
        is full, or the node has run out of a resource.
        """
        says = report.unwell or report.checks or report.directories or report.shortage
        if not (says or record.holds):
            return
        for kind, reason in (
            (HEALTH, reboot_text(report.unwell)),
            (CHECK, bad_checks_text(report.checks)),
            (DIRECTORIES, report.directories),
            (SHORTAGE, report.shortage),
        ):
            if reason:
                self.hold(record.node_id, kind, Hold(reason=reason))
            else:
                self.release(record.node_id, kind)

    def check_alive(self, node_id: str) -> None:
        """Raise ValueError if the node does not exist or is dead."""
        if not self.is_alive(node_id):
            raise ValueError(f"node {node_id} does not exist or is not alive")

    def amended(self, record: NodeRecord) -> None:
        """Store a node's record after a change that no other part needs to know."""
        self._note(record.node_id)
        self._effects.node_changed(record)

    def check_totals(self, node_id: str, wanted: Mapping[str, float]) -> None:
        """Check new totals for a node. Raises ValueError if the node is not alive, and for the
        reasons of `record.check_totals`.
        """
        self.check_alive(node_id)
        check_totals(self._records[node_id], self._reports[node_id].devices, wanted)

    def leave(self, node_id: str, reason: str, death: str = LOST) -> None:
        """Give up a node that ends on its own, or whose process was seen to end."""
        if self.is_alive(node_id):
            self._die(node_id, reason, death)

    def restore(self, rows: Iterable[NodeRecord], now: float) -> None:
        """Restore what the head knew before it restarted. Living nodes get extra time to report.

        Until a node has reported, none of its resources count as free.
        """
        for record in sorted(rows, key=lambda one: one.ended):
            if record.state == DEAD:
                self._dead.append(record.node_id)
            else:
                # an earlier version wrote this row
                if record.state == DRAINING and not record.holds:
                    record.holds = {DRAIN: Hold(reason=record.reason)}
                self._alive.on_restored(record.node_id, now)
            self._add(record)

    def get(self, node_id: str) -> NodeRecord | None:
        """Return the node with this id. Dead nodes remain known for a while."""
        return self._records.get(node_id)

    def of_prefix(self, prefix: bytes) -> NodeRecord | None:
        """Return the node whose processes' ids have this prefix."""
        node_id = self._prefixes.get(prefix)
        return None if node_id is None else self._records[node_id]

    def display_name(self, prefix: bytes) -> str:
        """Return the display name of the node whose processes' ids have this prefix."""
        record = self.of_prefix(prefix)
        return "a node" if record is None else f"node {record.hostname or record.node_id[:12]}"

    def address_of(self, node_id: str) -> str:
        """Return the address at which a node is reached."""
        record = self.get(node_id)
        return (record.host if record is not None else "") or "127.0.0.1"

    def host_of(self, node_id: str) -> str:
        """Return the display name of a node's machine."""
        record = self.get(node_id)
        return (record.hostname if record is not None else "") or node_id[:8]

    def is_alive(self, node_id: str) -> bool:
        """Whether the node counts as alive. A draining node counts as alive, too."""
        return self._alive.is_alive(node_id)

    def takes_work(self, node_id: str) -> bool:
        """Whether new work may start on the node: it is alive and not draining."""
        record = self.get(node_id)
        return record is not None and record.state == ALIVE

    def is_here(self, node_id: str) -> bool:
        """Whether the node is alive and connected."""
        return self._alive.is_here(node_id)

    def all(self) -> list[NodeRecord]:
        """Return every node, in the order of joining."""
        return list(self._records.values())

    def yields(self, node_id: str) -> dict[str, float]:
        """Return the resources that ordinary tasks hold on a node, according to its last report."""
        report = self._reports.get(node_id)
        return {} if report is None else report.yields

    def last_report(self, node_id: str) -> NodeReport:
        """Return the last report of a known node."""
        return self._reports[node_id]

    def closed_devices(self) -> list[str]:
        """Return the GPUs of living nodes that are bad or cordoned, each with the reason as
        text.
        """
        living = ((record, self._reports[record.node_id]) for record in self.living())
        return [text for record, report in living for text in closed_devices(record, report)]

    def living(self) -> list[NodeRecord]:
        """Return every node that is not dead, including draining nodes."""
        return [record for record in self._records.values() if record.state != DEAD]

    def possible(self) -> list[NodeRecord]:
        """Return every node that is not dead, and every node that may be started when work needs
        it.
        """
        living = self.living()
        return living + self.expected.records(living)

    def booting(self) -> dict[str, list[str]]:
        """Return, by pool, the names of the nodes whose machines are booting."""
        return self.expected.booting(self.living())

    def row(self, node_id: str) -> ViewRow:
        """Return the row of a node with its last report, as other nodes see it."""
        return view_row(self._records[node_id], self._reports[node_id])

    def reason(self, node_id: str) -> str:
        """Return why a node drains, is dead or is not connected now, and which devices are
        unhealthy. Empty for a healthy, connected node that takes work.
        """
        absence = self._alive.absence(node_id)
        return reason_of(self._records[node_id], self._reports[node_id], absence)

    def rows(self) -> list[NodeInfo]:
        """Return all nodes for display."""
        return [self._row_of(record) for record in self._records.values()]

    def _row_of(self, record: NodeRecord) -> NodeInfo:
        node_id = record.node_id
        return node_info(record, self._reports[node_id], self._alive.absence(node_id))

    def changes_since(self, version: int) -> tuple[int, list[ViewRow]]:
        """Return the current version, and the rows that changed after `version`, the oldest change
        first. Version 0, which joining nodes have, stands for all rows.
        """
        reached, names = self._changes.since(version)
        for node_id in names:
            if node_id not in self._told:
                self._told[node_id] = self.row(node_id)
        return reached, [self._told[node_id] for node_id in names]

    def rows_since(self, version: int, most: int) -> tuple[int, list[NodeInfo], list[str]]:
        """Return (version, rows, ids): the rows of nodes that changed after `version`, and the ids
        of nodes that are no longer known, at most `most` rows and ids in all. If more follow, the
        returned version is the version of the last of these changes.
        """
        reached, names = self._news.since(version, most)
        rows = [self._row_of(self._records[name]) for name in names if name in self._records]
        return reached, rows, [name for name in names if name not in self._records]

    def _add(self, record: NodeRecord) -> None:
        self._records[record.node_id] = record
        self._reports.setdefault(record.node_id, NodeReport(available={}))
        self._prefixes[record.prefix] = record.node_id
        self._put(record)
        self._note(record.node_id)

    def _put(self, record: NodeRecord) -> bool:
        load = _load(self._reports[record.node_id].queued)
        return self.cluster.put(self.row(record.node_id), load)

    def _note(self, node_id: str) -> None:
        self._told.pop(node_id, None)
        self._changes.note(node_id)
        self._news.note(node_id)

    def _die(self, node_id: str, reason: str, death: str) -> None:
        record = self._records[node_id]
        # The end of a node with a hold was expected.
        record.death = ORDERLY if record.holds.keys() - {RESTART} else death
        self._alive.on_dead(node_id)
        self._reports[node_id] = NodeReport(available={})
        self._move(record, DEAD, reason)
        self._dead.append(node_id)
        if len(self._dead) > KEEP_DEAD:
            oldest = self._records.pop(self._dead.popleft())
            del self._prefixes[oldest.prefix]
            del self._reports[oldest.node_id]
            self._changes.forget(oldest.node_id)
            self._told.pop(oldest.node_id, None)
            self._news.note(oldest.node_id)
        self._effects.node_dead(record, reason)

    def _move(self, record: NodeRecord, state: str, reason: str) -> None:
        context = f"node {record.node_id} on {record.hostname}, epoch {record.epoch}"
        record.state = move(NODE, "node", record.state, state, context)
        record.reason = reason
        self._put(record)
        self._note(record.node_id)


def _load(queued: list[tuple[dict[str, float], int]]) -> ResourceSet:
    if not queued:
        return EMPTY
    units: dict[str, int] = {}
    for resources, count in queued:
        for name, amount in resources.items():
            units[name] = units.get(name, 0) + to_units(amount) * count
    return ResourceSet(units)
