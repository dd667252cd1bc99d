"""The head's directory of nodes: living and dead nodes, and the last report of each."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

import msgspec

from phalanx.errors import StaleNodeError
from phalanx.head.changes import ChangeLog
from phalanx.model.command_groups import held_text
from phalanx.model.gpu_sharing import plain_amounts
from phalanx.model.holds import (
    CHECK,
    CORDON,
    DIRECTORIES,
    DRAIN,
    HEALTH,
    RESTART,
    SHORTAGE,
    UNWELL,
    Hold,
    cordoned_text,
    holds_text,
)
from phalanx.model.lifecycle import ALIVE, DEAD, DRAINING, NODE, move
from phalanx.model.machines import MachineShare
from phalanx.model.node_deaths import LOST, ORDERLY
from phalanx.model.options import ACCELERATORS, LARGEST_AMOUNT
from phalanx.model.rows.cluster import NodeInfo
from phalanx.observe.checks import bad_checks_text, suspect_checks_text
from phalanx.observe.device_health import BAD, reboot_text, unwell_text
from phalanx.protocol.cluster_messages import REPORT_EVERY_S, NodeReport, ViewRow
from phalanx.scheduler.devices.quantities import to_units
from phalanx.scheduler.devices.sets import EMPTY, ResourceSet
from phalanx.scheduler.placement.cluster_nodes import ClusterNodes

KEEP_DEAD = 1_000
CONNECTION_ENDED = "its connection ended"
PROCESS_ENDED = "its process ended, and its commands go on"
MIN_SILENCE_S = 1.5 * REPORT_EVERY_S
PREFIX_BYTES = 6
LATE_S = 0.3
"""Seconds after the previous tick from which a tick is late. Messages that came in between are then
still unread.
"""


class HealthLimits(msgspec.Struct, frozen=True, kw_only=True):
    """When a silent node is dead: after `misses` periods.

    Raises ValueError for limits that never end, and for less than MIN_SILENCE_S, because healthy
    nodes would be given up between two reports. The defaults are Ray's health checks: 3 s and 5
    misses, and 5 s more for a node that starts.
    """

    period_s: float = 3.0
    misses: int = 5
    joining_s: float = 5.0
    """Additional seconds for which a node may be silent that has just joined."""
    reconnect_s: float = 2.0
    """Seconds after which a node is dead if its connection has ended and the node has not come
    back.
    """
    restart_s: float = 60.0
    """Seconds for which members wait whose node's process has ended, and whose commands go on, for
    the node's next process; see docs/decisions/members-outlive-their-node.md.
    """
    restored_s: float = 30.0
    """Additional seconds for which nodes that an earlier head knew may be silent after a
    restart.
    """

    def __post_init__(self) -> None:
        for name in ("period_s", "misses"):
            if not 0 < getattr(self, name) < float("inf"):
                raise ValueError(f"{name} is a number above 0, not {getattr(self, name)}")
        if self.silence_s < MIN_SILENCE_S:
            raise ValueError(
                f"period_s x misses is at least {MIN_SILENCE_S:g} s, not {self.silence_s:g} s: "
                f"healthy nodes report every {REPORT_EVERY_S:g} s"
            )

    @property
    def silence_s(self) -> float:
        """Seconds for which a node may be silent."""
        return self.period_s * self.misses


class NodeRecord(msgspec.Struct, kw_only=True, eq=False):
    """A node as the store keeps it. A node that has never joined has epoch 0."""

    node_id: str
    """The node's id in hex."""
    prefix: bytes
    """The first six bytes of the ids of the node's processes."""
    host: str
    port: int
    hostname: str = ""
    """The name of the node's machine, or a name that people gave the node, which is then also its
    `name`.
    """
    name: str = ""
    totals: dict[str, float] = {}
    labels: dict[str, str] = {}
    ports: str = ""
    """The ports that gangs may use on the node; empty for the usual ports."""
    state: str = ALIVE
    reason: str = ""
    """Why the node drains, or why it is dead."""
    death: str = ""
    """How the node ended, once it is dead (see `model.node_deaths`)."""
    epoch: int = 0
    """How many times the node has joined: it joins again when its connection or the head has come
    back.
    """
    holds: dict[str, Hold] = {}
    """The reasons why the node drains, by kind. The node takes work again when the last reason is
    gone.
    """
    cordoned: dict[int, Hold] = {}
    """The GPUs of the node that an operator has closed."""
    devices: dict[str, int] = {}
    """The number of numbered devices of the node by resource, including closed devices."""
    limits: dict[str, int] = {}
    """The largest number of numbered devices that the node can have, by resource, if its
    environment shows it only some.
    """
    machine: MachineShare | None = None
    """The node's machine; None if the node's amounts are not compared with those of other nodes of
    the machine.
    """
    keeps_commands: bool = False
    """Whether commands of jobs go on there when its process ends."""
    next_id: str = ""
    """The id of the node's next process, once there is one."""

    @property
    def whole(self) -> dict[str, float]:
        """The node's resources as they are when all its devices are open."""
        counts = {name: float(count) for name, count in self.devices.items()}
        return {
            name: max(self.totals.get(name, 0.0), counts.get(name, 0.0))
            for name in self.totals | counts
        }


class NodeEffects(Protocol):
    """The directory's requests to its shell."""

    def node_changed(self, record: NodeRecord) -> None:
        """Store and publish a node that joined or drains."""
        ...

    def node_held(self, record: NodeRecord, kind: str, hold: Hold | None) -> None:
        """Record that a node drains for one more reason, or (with None) for one reason less."""
        ...

    def node_dead(self, record: NodeRecord, reason: str) -> None:
        """Store and publish a node's death. All work that ran there is lost."""
        ...


class NodeDirectory:
    """All nodes of the cluster."""

    def __init__(self, effects: NodeEffects, limits: HealthLimits | None = None) -> None:
        self.cluster = ClusterNodes()
        self.version = 0
        """Grows with every change that `changes_since` reports."""
        self._effects = effects
        self._limits = limits or HealthLimits()
        self._records: dict[str, NodeRecord] = {}
        self._reports: dict[str, NodeReport] = {}
        self._prefixes: dict[bytes, str] = {}
        self._silent_until: dict[str, float] = {}
        self._ticked_at = float("inf")
        self._has_passed_over = False
        """Whether the last tick was late."""
        self.has_commands: Callable[[str], bool] = lambda node_id: False
        """Tells whether members of jobs have their places on a node."""
        self._awaited: dict[str, str] = {}
        """The reasons why nodes are not connected that may be back soon."""
        self._told: dict[str, ViewRow] = {}
        """Rows for nodes that join, kept until the node that a row describes changes."""
        self._changed_at: dict[str, int] = {}
        """The version of each node's last change, the latest change last."""
        self._news: ChangeLog[str] = ChangeLog()
        """The changes for display. They include changes of nodes that are not connected, about
        which no other node needs to know.
        """
        self._dead: deque[str] = deque()

    def join(self, now: float, record: NodeRecord, report: NodeReport | None = None) -> NodeRecord:
        """Add a node that joins, for the first time or again. Returns the node's record.

        Without a `report`, the node's previous report stands until the next one. Raises
        StaleNodeError for a node that was declared dead or is not known any more, and for a prefix
        that another node has.
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
            joined.devices = known.devices
        self._awaited.pop(joined.node_id, None)
        self._silent_until[joined.node_id] = now + self._limits.silence_s + self._limits.joining_s
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
        """Handle a heartbeat. Returns whether the known resources of the node have changed.

        Raises StaleNodeError for a dead or unknown node, which must be notified. Raises ValueError
        for invalid amounts.
        """
        record = self._records.get(node_id)
        if record is None or record.state == DEAD:
            why = "is not known here" if record is None else f"is dead: {record.reason}"
            raise StaleNodeError(f"Node {node_id} {why}. It must come back as a new node.")
        self._silent_until[node_id] = now + self._limits.silence_s
        if report.total is not None:
            record.totals = report.total
        record.devices = {name: len(left) for name, left in report.devices.items()}
        is_news = report != self._reports[node_id] or report.total is not None
        if is_news:
            self._reports[node_id] = report
            self._note(node_id)
        # the report with which the node joined did not contain its health
        if is_news or record.holds:
            self._follow_health(record, report)
        if not (is_news or self.cluster.is_counted(node_id)):
            return False
        # The report brings no news, but amounts that were counted as taken here may never have been
        # taken on the node.
        return self._put(record)

    def disconnected(self, node_id: str, now: float) -> None:
        """Note that a node's connection ended. Most likely the node's process ended, or the node
        will soon be back.
        """
        if node_id in self._silent_until:
            self._awaited[node_id] = CONNECTION_ENDED
            self._news.note(node_id)
            until = now + self._limits.reconnect_s
            self._silent_until[node_id] = min(self._silent_until[node_id], until)

    def refused(self, node_id: str, reason: str, now: float) -> bool:
        """Note a living node that may not join for this reason. Returns whether that is news. The
        node does not count as dead while it repeats its request.
        """
        self._silent_until[node_id] = now + self._limits.silence_s
        is_news = self._awaited.get(node_id) != reason
        if is_news:
            self._awaited[node_id] = reason
            self._news.note(node_id)
        return is_news

    def tick(self, now: float) -> None:
        """Declare nodes dead that were silent for too long.

        A late tick declares none dead, because messages that were sent in time may be unread. The
        next tick does so even if it is late, too.
        """
        is_late, self._ticked_at = now - self._ticked_at > LATE_S, now
        self._has_passed_over = is_late and not self._has_passed_over
        if self._has_passed_over:
            return
        late = [node_id for node_id, until in self._silent_until.items() if now >= until]
        for node_id in late:
            # otherwise an effect of another death has ended this node
            if node_id in self._silent_until and not self._expects_next(node_id, now):
                why = f"it did not report for {self._limits.silence_s:g} s"
                if node_id in self._awaited:
                    why = f"{self._awaited[node_id]}, and it did not come back in time"
                self._die(node_id, why, LOST)

    def _expects_next(self, node_id: str, now: float) -> bool:
        """Whether a node whose process has ended, most likely, is waited for from now on: its next
        process can go on with the members there.
        """
        record = self._records[node_id]
        is_gone = self._awaited.get(node_id) == CONNECTION_ENDED
        if not (record.keeps_commands and is_gone and self.has_commands(node_id)):
            return False
        self._awaited[node_id] = PROCESS_ENDED
        self._silent_until[node_id] = now + self._limits.restart_s
        self.hold(node_id, RESTART, Hold(reason=PROCESS_ENDED))
        return True

    def is_expected(self, node_id: str) -> bool:
        """Whether the next process of a node is waited for."""
        return self._awaited.get(node_id) == PROCESS_ENDED

    def succeeded(self, former: str, node_id: str) -> None:
        """Give up a node whose next process has joined."""
        if former in self._silent_until:
            self._records[former].next_id = node_id
            self._die(former, "its process has ended, and the next one has joined", ORDERLY)

    def latest(self, node_id: str) -> str:
        """Return the id of the latest process of a node, which has the files of earlier ones."""
        while (record := self._records.get(node_id)) is not None and record.next_id:
            node_id = record.next_id
        return node_id

    def hold(self, node_id: str, kind: str, hold: Hold) -> bool:
        """Hold new work back from a node, for one more reason or with another deadline.

        Returns False if the node is held for that reason already. Raises ValueError for an unknown
        or dead node.
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
        """Remove one reason to hold new work back from a node. Without reasons left, the node takes
        work again.

        Returns False if the node was not held for that reason. Raises ValueError for an unknown or
        dead node.
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
        """Hold the node while a device needs it empty, a check fails, a directory is full, or the
        node has run out of something."""
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
        """Raise ValueError for a node that does not exist or is dead."""
        if node_id not in self._silent_until:
            raise ValueError(f"node {node_id} does not exist or is not alive")

    def amended(self, record: NodeRecord) -> None:
        """Store a node's changed record. No other part needs to know of the change."""
        self._note(record.node_id)
        self._effects.node_changed(record)

    def totals(self, node_id: str, wanted: Mapping[str, float]) -> dict[str, float]:
        """Return the totals that the node should have from now on; they may be less than the
        amounts in use.

        Raises ValueError for a node that is not alive, for invalid amounts, for a fraction of a
        numbered device, and for more devices than the node's environment shows it.
        """
        self.check_alive(node_id)
        limits = self._records[node_id].limits
        numbered = self._reports[node_id].devices
        for name, amount in wanted.items():
            if not 0 <= amount < float("inf"):
                raise ValueError(f"{name}: an amount is a number of at least 0, not {amount:g}")
            if amount > LARGEST_AMOUNT:
                raise ValueError(f"{name}: an amount is at most {LARGEST_AMOUNT:g}, not {amount:g}")
            if name == "object_store_memory":
                raise ValueError(f"{name} stays as it is while the node runs")
            if (name in numbered or name in ACCELERATORS) and amount != int(amount):
                raise ValueError(f"{name}: a node has a whole number of devices, not {amount:g}")
            if amount > limits.get(name, amount):
                raise ValueError(
                    f"{name}: the environment of the node shows it {limits[name]} devices, so it "
                    f"cannot have {amount:g}"
                )
        return dict(wanted)

    def leave(self, node_id: str, reason: str, death: str = LOST) -> None:
        """Give up a node that ends by itself, or whose process was seen to end."""
        if node_id in self._silent_until:
            self._die(node_id, reason, death)

    def restore(self, rows: Iterable[NodeRecord], now: float) -> None:
        """Restore what the head knew before it restarted. Living nodes get extra time to report.

        Until a node has reported, none of its resources count as free.
        """
        for record in rows:
            if record.state == DEAD:
                self._dead.append(record.node_id)
            else:
                # an earlier version wrote this row
                if record.state == DRAINING and not record.holds:
                    record.holds = {DRAIN: Hold(reason=record.reason)}
                grace_s = self._limits.silence_s + self._limits.restored_s
                self._silent_until[record.node_id] = now + grace_s
                self._awaited[record.node_id] = "the head restarted"
            self._add(record)

    def get(self, node_id: str) -> NodeRecord | None:
        """Return the node with this id. Dead nodes remain known for a while."""
        return self._records.get(node_id)

    def of_prefix(self, prefix: bytes) -> NodeRecord | None:
        """Return the node by the prefix of its processes' ids."""
        node_id = self._prefixes.get(prefix)
        return None if node_id is None else self._records[node_id]

    def display_name(self, prefix: bytes) -> str:
        """Return the name for display of the node with this prefix."""
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
        """Whether the node counts as living, which includes draining."""
        return node_id in self._silent_until

    def takes_work(self, node_id: str) -> bool:
        """Whether new work may begin on the node: it is alive and does not drain."""
        record = self.get(node_id)
        return record is not None and record.state == ALIVE

    def is_here(self, node_id: str) -> bool:
        """Whether the node is alive and connected."""
        return node_id in self._silent_until and node_id not in self._awaited

    def all(self) -> list[NodeRecord]:
        """Return every node, in the order of joining."""
        return list(self._records.values())

    def yields(self, node_id: str) -> dict[str, float]:
        """Return the resources that ordinary tasks hold on a node, by the node's last report."""
        report = self._reports.get(node_id)
        return {} if report is None else report.yields

    def last_report(self, node_id: str) -> NodeReport:
        """Return the last report of a known node."""
        return self._reports[node_id]

    def closed_devices(self) -> list[str]:
        """Return the GPUs of living nodes that are bad or cordoned, each with the reason as
        text.
        """
        found = []
        for record in self.living():
            unwell = self._reports[record.node_id].unwell
            if not (unwell or record.cordoned):
                continue
            name = record.hostname or record.node_id[:12]
            health = {one.number: one.health for one in unwell}
            bad = {number for number, one in health.items() if one.state == BAD}
            for number in sorted(bad | record.cordoned.keys()):
                said = [f"bad: {health[number].reason}"] if number in bad else []
                if number in record.cordoned:
                    said.append(holds_text({CORDON: record.cordoned[number]}))
                found.append(f"{name}/gpu{number} is {', '.join(said)}")
        return found

    def living(self) -> list[NodeRecord]:
        """Return every node that is not dead, including draining ones."""
        return [record for record in self._records.values() if record.state != DEAD]

    def row(self, node_id: str) -> ViewRow:
        """Return the row of a node with its last report, as other nodes see it."""
        record, report = self._records[node_id], self._reports[node_id]
        return ViewRow(
            node_id=node_id,
            prefix=record.prefix,
            host=record.host,
            port=record.port,
            state=record.state,
            total=record.totals,
            available=report.available,
            labels=record.labels,
            devices=report.devices,
            queue_length=sum(count for _, count in report.queued),
            run_s=report.run_s,
            bandwidth=report.bandwidth,
            ports=record.ports,
            cards=report.cards,
        )

    def reason(self, node_id: str) -> str:
        """Return why a node drains, is dead or is not connected now, and which devices are
        unhealthy. Empty if all is well.
        """
        awaited = self._awaited.get(node_id)
        report = self._reports[node_id]
        said = (
            self._records[node_id].reason
            or (f"{awaited}; waiting for it to come back" if awaited else ""),
            unwell_text(report.unwell),
            suspect_checks_text(report.checks),
            cordoned_text(self._records[node_id].cordoned),
            report.trouble,
        )
        return "; ".join(one for one in said if one)

    def unwell(self) -> list[str]:
        """Return one sentence for each living node that takes no new work because of its health,
        with the reason.
        """
        return [
            f"{record.name or record.node_id[:8]} on {record.hostname} takes no new work: {why}"
            for record in self.living()
            if (why := holds_text({k: h for k, h in record.holds.items() if k in UNWELL}))
        ]

    def rows(self) -> list[NodeInfo]:
        """Return all nodes for display."""
        return [self._row_of(record) for record in self._records.values()]

    def _row_of(self, record: NodeRecord) -> NodeInfo:
        report = self._reports[record.node_id]
        return NodeInfo(
            node_id=record.node_id,
            state=record.state,
            reason=self.reason(record.node_id),
            host=record.host,
            port=record.port,
            hostname=record.hostname,
            name=record.name,
            total=plain_amounts(record.totals),
            available=plain_amounts(report.available),
            labels=record.labels,
            running=report.running,
            waiting=sum(count for _, count in report.queued),
            devices=report.devices,
            holds=[
                (kind, hold.reason, hold.by, hold.since, hold.deadline)
                for kind, hold in sorted(record.holds.items())
            ],
            unwell=[
                (one.number, one.health.state, one.health.action, one.health.reason)
                for one in report.unwell
            ],
            closed=sorted(
                record.cordoned.keys()
                | {one.number for one in report.unwell if one.health.state == BAD}
            ),
            trouble=report.trouble,
            checks=[(one.name, one.state, one.said) for one in report.checks],
            command_groups=held_text(report.command_groups),
        )

    def changes_since(self, version: int) -> tuple[int, list[ViewRow]]:
        """Return the current version, and the rows that changed after `version`, the oldest change
        first.

        For version 0, the rows are all known nodes, as a node needs that has just joined. All nodes
        at the same version can be sent the same bytes.
        """
        changed = []
        for node_id in reversed(self._changed_at):
            if self._changed_at[node_id] <= version <= self.version:
                break
            told = self._told.get(node_id)
            if told is None:
                told = self._told[node_id] = self.row(node_id)
            changed.append(told)
        changed.reverse()
        return self.version, changed

    def rows_since(self, version: int, most: int) -> tuple[int, list[NodeInfo], list[str]]:
        """Return the version reached, the rows of nodes that changed after `version`, and the ids
        of nodes that are not known any more; at most `most` rows and ids together.
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
        self.version += 1
        self._told.pop(node_id, None)
        self._changed_at.pop(node_id, None)
        self._changed_at[node_id] = self.version
        self._news.note(node_id)

    def _die(self, node_id: str, reason: str, death: str) -> None:
        record = self._records[node_id]
        # A node that is held was expected to end.
        record.death = ORDERLY if record.holds.keys() - {RESTART} else death
        del self._silent_until[node_id]
        self._awaited.pop(node_id, None)
        self._reports[node_id] = NodeReport(available={})
        self._move(record, DEAD, reason)
        self._dead.append(node_id)
        if len(self._dead) > KEEP_DEAD:
            oldest = self._records.pop(self._dead.popleft())
            del self._prefixes[oldest.prefix]
            del self._reports[oldest.node_id], self._changed_at[oldest.node_id]
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
