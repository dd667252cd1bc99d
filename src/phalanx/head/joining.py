"""How nodes are taken in: who may join, what it is told, and what it has of the time before."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from phalanx.errors import StaleNodeError
from phalanx.head.events.nodes import NodeStory
from phalanx.head.nodes import NodeRecord
from phalanx.observe import cluster_events
from phalanx.protocol.cluster_messages import Expelled, Join, Joined, NodeReport, View, ViewRow

if TYPE_CHECKING:
    from phalanx.head.control_plane import ControlPlane


class Joining:
    """The door of one control store."""

    def __init__(self, plane: ControlPlane, cluster: str, story: NodeStory) -> None:
        """`cluster` names it in its store; empty: it takes in nodes of any."""
        self._plane = plane
        self._cluster = cluster
        self._story = story
        self._foreign: dict[str, str] = {}
        """The name of the machine of each node that was refused, as it is another cluster's."""

    @property
    def trouble(self) -> str:
        """What is not well, for people; empty when nobody was refused."""
        if not self._foreign:
            return ""
        hosts = ", ".join(sorted(set(self._foreign.values())))
        return (
            f"{len(self._foreign)} nodes of another cluster were refused, on {hosts}: if "
            "this head should be theirs, it was started on the wrong store"
        )

    def join(self, prefix: bytes, message: Join, now: float) -> None:
        """A node wants to belong to the cluster, for the first time or again."""
        plane = self._plane
        row = message.row
        if self._cluster and message.cluster not in ("", self._cluster):
            self._foreign[row.node_id] = message.hostname
            reason = f"it is the head of the cluster {self._cluster}, not of {message.cluster}"
            refusal = Expelled(reason, is_stale=True, is_foreign=True)
            plane.outbox.send_to_stranger(prefix, refusal)
            return
        try:
            if row.prefix != prefix:
                raise ValueError("a node joins under its own prefix")
            report = NodeReport(available=row.available, devices=row.devices)
            entry = record_of(row, message.hostname, message.epoch, message.name)
            record = plane.nodes.join(now, entry, report)
        except (StaleNodeError, ValueError) as error:
            is_stale = isinstance(error, StaleNodeError)
            plane.outbox.send_to_stranger(prefix, Expelled(str(error), is_stale))
            return
        plane.outbox.connect(record.node_id, prefix)
        self._note(record)
        plane.outbox.send(
            prefix, Joined(record.epoch, plane.placement, self._cluster, plane.settings)
        )
        _, rows = plane.nodes.changes_since(0)
        plane.outbox.send(prefix, View(rows, is_whole=True))
        self._know_again(record, message, now)
        self._give_up(message.given_up, but=prefix)

    def _note(self, record: NodeRecord) -> None:
        self._story.joined(record)
        self._plane.events.record(
            cluster_events.NodeJoined(
                at=self._plane.clock.wall(),
                node=record.prefix.hex(),
                hostname=record.hostname,
                epoch=record.epoch,
            )
        )

    def _know_again(self, record: NodeRecord, message: Join, now: float) -> None:
        """Each part looks at what the node has of it."""
        plane = self._plane
        plane.drivers.node_joined(record.prefix)
        plane.actors.node_joined(record, message.actors)
        others = plane.gangs.inventory(record.node_id, message.bundles, now)
        plane.group_table.inventory(record.node_id, others, message.bundles.ended, now)
        plane.gangs.node_joined(record)
        plane.devices.node_joined(record)
        plane.draining.node_joined(record)

    def _give_up(self, prefixes: Iterable[bytes], but: bytes) -> None:
        """What an earlier head has given up stays so, also where it could not write that down:
        others have acted on it."""
        for prefix in prefixes:
            record = self._plane.nodes.of_prefix(prefix)
            if record is not None and prefix != but:
                self._plane.nodes.leave(record.node_id, "an earlier head gave it up")

    def report(self, prefix: bytes, message: NodeReport, now: float) -> bool:
        """A node says what it has free; whether that is something else than before."""
        plane = self._plane
        record = plane.nodes.of_prefix(prefix)
        if record is None:
            return False
        if message.total == record.totals:
            message.total = None
        before = plane.nodes.last_report(record.node_id)
        try:
            changed = plane.nodes.report(now, record.node_id, message)
        except StaleNodeError as error:
            plane.outbox.send_to_stranger(prefix, Expelled(str(error), is_stale=True))
            return False
        self._story.judged(record, before, message)
        plane.unplaceable.judge(amounts for amounts, _ in message.queued)
        if message.total is not None:
            plane.node_changed(record)
        plane.gangs.node_reported(record.node_id, changed)
        return changed


def record_of(row: ViewRow, hostname: str, epoch: int, name: str = "") -> NodeRecord:
    """What is kept of a node that comes with this row."""
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
        epoch=epoch,
    )
