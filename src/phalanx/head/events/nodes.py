"""Records what happens to nodes, as events."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

import msgspec

from phalanx.head.events.event_log import EventLog
from phalanx.head.nodes.record import NodeRecord
from phalanx.model.holds import Hold, holds_text
from phalanx.model.lifecycle import ALIVE, DRAINING
from phalanx.model.node_deaths import ORDERLY
from phalanx.model.rows.events import EventInfo
from phalanx.observe.device_health import OK, WELL
from phalanx.observe.events import EventQuery
from phalanx.protocol.report_messages import NodeReport

LOST = "node-lost"
PART = "part-killed"
LATELY_S = 3_600.0
"""Seconds for which listings show the death of a node."""
LOST_SHOWN = 100


class NodeRecorder:
    """Notes changes of nodes, by comparing them with their previous states."""

    def __init__(self, event_log: EventLog) -> None:
        self._event_log = event_log
        self._states: dict[str, str] = {}
        """The state of each living node."""
        self._away: set[str] = set()
        self._lost: deque[EventInfo] = deque(maxlen=LOST_SHOWN)
        """The recent deaths of nodes and of their helper processes, latest last. Nodes that were
        shut down are not included.
        """

    def restore(self, records: Iterable[NodeRecord]) -> None:
        """Restore the nodes that an earlier head knew."""
        self._states = {one.node_id: one.state for one in records if one.state in (ALIVE, DRAINING)}
        self._lost.extend(
            self._event_log.page(EventQuery(kinds=[LOST, PART], limit=LOST_SHOWN)).events
        )

    def lost_lately(self) -> list[str]:
        """Return a sentence for each node that died, or had a helper process killed, within the
        last LATELY_S seconds. Nodes that were ordered to end are left out.
        """
        since = self._event_log.wall() - LATELY_S
        how = {LOST: " died:", PART: ":"}
        shown = [one for one in self._lost if one.at >= since]
        return [f"node {one.host}{how[one.kind]} {one.why}" for one in shown]

    def clock_stepped(self, step_s: float) -> None:
        """Shift the times of recent deaths after the clock was stepped by this many seconds, so
        that the deaths are displayed as long as before.
        """
        moved = [msgspec.structs.replace(one, at=one.at + step_s) for one in self._lost]
        self._lost = deque(moved, maxlen=LOST_SHOWN)

    def changed(self, record: NodeRecord) -> None:
        """Note that a node joined, drains or stopped draining. A change of its totals is not
        noted.
        """
        before = self._states.get(record.node_id)
        self._states[record.node_id] = record.state
        if before is None:
            self._note("node-joined", record)
        if (before or ALIVE) != record.state:
            kind = "node-drained" if record.state == DRAINING else "node-undrained"
            self._note(kind, record, record.reason)

    def joined(self, record: NodeRecord) -> None:
        """Note that a node has connected again."""
        if record.node_id in self._away:
            self._away.discard(record.node_id)
            self._note("node-back", record)

    def away(self, record: NodeRecord) -> None:
        """Note that a node's connection ended."""
        if record.node_id in self._states:
            self._away.add(record.node_id)
            self._note("node-away", record)

    def refused(self, record: NodeRecord, why: str) -> None:
        """Note that a node was refused although it is running."""
        self._away.add(record.node_id)
        self._note("node-refused", record, why)

    def held(self, record: NodeRecord, kind: str, hold: Hold | None) -> None:
        """Note that a node has one more hold or, if `hold` is None, one less. A hold is a reason to
        start no new work on the node.
        """
        if hold is None:
            if record.holds:
                self._note("node-released", record, kind)
        elif len(record.holds) > 1:
            self._note("node-held", record, holds_text({kind: hold}))

    def judged(self, record: NodeRecord, before: NodeReport, after: NodeReport) -> None:
        """Note that helper processes of a node were killed, and that GPUs of the node have become
        well or unwell.
        """
        if before.available and after.parts_killed > before.parts_killed:
            self._note(PART, record, after.last_killed)
            self._show(PART, record, after.last_killed)
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
        """Note that an operator closed a GPU of a node or, if `hold` is None, reopened it."""
        if hold is None:
            self._of_device("device-uncordoned", record, number, "")
        else:
            self._of_device("device-cordoned", record, number, hold.reason)

    def _of_device(self, kind: str, record: NodeRecord, number: int, why: str) -> None:
        name = f"gpu{number}"
        self._event_log.note(kind, node=record.node_id, host=record.hostname, name=name, why=why)

    def lost(self, record: NodeRecord, reason: str) -> None:
        """Note that a node was given up."""
        self._states.pop(record.node_id, None)
        self._away.discard(record.node_id)
        if record.death == ORDERLY:
            self._note("node-left", record, reason)
            return
        self._note(LOST, record, reason)
        self._show(LOST, record, reason)

    def _show(self, kind: str, record: NodeRecord, why: str) -> None:
        at, node, host = self._event_log.wall(), record.node_id, record.hostname
        self._lost.append(EventInfo(number=0, at=at, kind=kind, node=node, host=host, why=why))

    def _note(self, kind: str, record: NodeRecord, why: str = "") -> None:
        self._event_log.note(kind, node=record.node_id, host=record.hostname, why=why)
