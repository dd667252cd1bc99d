"""What happens to nodes, noted as events."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from phalanx.head.events.event_log import EventLog
from phalanx.head.nodes import NodeRecord
from phalanx.model.holds import Hold, holds_text
from phalanx.model.lifecycle import ALIVE, DRAINING
from phalanx.model.node_deaths import ORDERLY
from phalanx.model.rows.events import EventInfo
from phalanx.observe.device_health import OK, WELL
from phalanx.observe.events import EventQuery
from phalanx.protocol.cluster_messages import NodeReport

LOST = "node-lost"
LATELY_S = 3_600.0
"""A node that died so lately is something that people should look at."""
LOST_SHOWN = 100


class NodeRecorder:
    """Notes what is news of a node, by what was known of it."""

    def __init__(self, book: EventLog) -> None:
        self._book = book
        self._states: dict[str, str] = {}
        """Of the living."""
        self._away: set[str] = set()
        self._lost: deque[EventInfo] = deque(maxlen=LOST_SHOWN)
        """The nodes that nobody ended, the latest last."""

    def restore(self, records: Iterable[NodeRecord]) -> None:
        """Know again those that an earlier head knew."""
        self._states = {one.node_id: one.state for one in records if one.state in (ALIVE, DRAINING)}
        self._lost.extend(self._book.page(EventQuery(kinds=[LOST], limit=LOST_SHOWN)).events)

    def lost_lately(self) -> list[str]:
        """The nodes that died within the last hour although nobody ended them, each with why."""
        since = self._book.wall() - LATELY_S
        return [f"node {one.host} died: {one.why}" for one in self._lost if one.at >= since]

    def changed(self, record: NodeRecord) -> None:
        """It joined, drains, does not any more, or has other totals."""
        before = self._states.get(record.node_id)
        self._states[record.node_id] = record.state
        if before is None:
            self._note("node-joined", record)
        if (before or ALIVE) != record.state:
            kind = "node-drained" if record.state == DRAINING else "node-undrained"
            self._note(kind, record, record.reason)

    def joined(self, record: NodeRecord) -> None:
        """Its connection stands."""
        if record.node_id in self._away:
            self._away.discard(record.node_id)
            self._note("node-back", record)

    def away(self, record: NodeRecord) -> None:
        """Its connection ended."""
        if record.node_id in self._states:
            self._away.add(record.node_id)
            self._note("node-away", record)

    def refused(self, record: NodeRecord, why: str) -> None:
        """It lives and may not join."""
        self._away.add(record.node_id)
        self._note("node-refused", record, why)

    def held(self, record: NodeRecord, kind: str, hold: Hold | None) -> None:
        """It is held for one reason more, or one less, and drains before and after."""
        if hold is None:
            if record.holds:
                self._note("node-released", record, kind)
        elif len(record.holds) > 1:
            self._note("node-held", record, holds_text({kind: hold}))

    def judged(self, record: NodeRecord, before: NodeReport, after: NodeReport) -> None:
        """It says how well its GPUs are."""
        if before.unwell == after.unwell:
            return
        was = {one.number: one.health for one in before.unwell}
        now = {one.number: one.health for one in after.unwell}
        for number in sorted(was.keys() | now.keys()):
            health = now.get(number, WELL)
            if health.state != was.get(number, WELL).state:
                state = "well" if health.state == OK else health.state
                action = f"; needs: {health.action}" if health.action else ""
                self._of_device(f"device-{state}", record, number, f"{health.reason}{action}")

    def cordoned(self, record: NodeRecord, number: int, hold: Hold | None) -> None:
        """Somebody closed a GPU of it, or (None) opened it again."""
        if hold is None:
            self._of_device("device-uncordoned", record, number, "")
        else:
            self._of_device("device-cordoned", record, number, hold.reason)

    def _of_device(self, kind: str, record: NodeRecord, number: int, why: str) -> None:
        name = f"gpu{number}"
        self._book.note(kind, node=record.node_id, host=record.hostname, name=name, why=why)

    def lost(self, record: NodeRecord, reason: str) -> None:
        """It was given up."""
        self._states.pop(record.node_id, None)
        self._away.discard(record.node_id)
        if record.death == ORDERLY:
            self._note("node-left", record, reason)
            return
        self._note(LOST, record, reason)
        at, node, host = self._book.wall(), record.node_id, record.hostname
        self._lost.append(EventInfo(number=0, at=at, kind=LOST, node=node, host=host, why=reason))

    def _note(self, kind: str, record: NodeRecord, why: str = "") -> None:
        self._book.note(kind, node=record.node_id, host=record.hostname, why=why)
