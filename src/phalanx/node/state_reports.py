"""Collects the rows that a node and its processes contribute to a listing of the cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from phalanx.model.ids import PREFIX_BYTES, worker_id_of
from phalanx.node.dispatch import MessageTable, PeerMessageTable
from phalanx.node.events import NodeEvents
from phalanx.node.head_link import HeadLink
from phalanx.node.leases.machine import LeaseMachine
from phalanx.node.object_store import ObjectStore
from phalanx.node.peers import Peer, Peers
from phalanx.node.process_history import ProcessHistory, ProcessRecord
from phalanx.observe.state.columns import OF_PROCESSES, Row
from phalanx.observe.state.finished_tasks import offer_finished
from phalanx.observe.state.gathering import Gathering
from phalanx.observe.state.query import Selection, StatePart
from phalanx.observe.state.task_rows import finished_task_row, milliseconds
from phalanx.observe.task_journal import Run
from phalanx.protocol.node_messages import GatherRows, RowsReported
from phalanx.protocol.report_messages import GatherState, StateReported

KEEP_PART = 0.2
"""The fraction of a listing's time that is kept for the node's own answer: in this last part, the
node no longer waits for its processes.

So the node's answer is in time even if a process does not answer.
"""
MAX_ROUNDS = 64
"""The largest number of listings that are in progress at the same time. For further listings, no
process is asked.
"""

_EXITS = {
    "EXITED": "INTENDED_USER_EXIT",
    "KILLED": "INTENDED_SYSTEM_EXIT",
    "PREEMPTED": "INTENDED_SYSTEM_EXIT",
    "OOM": "NODE_OUT_OF_MEMORY",
}
"""Ray's names for the causes of the ends of processes."""


class _Answer(NamedTuple):
    part: StatePart
    reports_before: int
    """The number of reports of finished work that had arrived before the answer."""


class StateReports:
    """Answers the head's listings: immediately, from the node's own tables, or later, when the
    node's processes have answered.
    """

    def __init__(
        self,
        node_id: str,
        clock: Callable[[], float],
        head: HeadLink,
        *,
        peers: Peers,
        leases: LeaseMachine,
        store: ObjectStore,
        events: NodeEvents,
        history: ProcessHistory,
    ) -> None:
        self._node_id = node_id
        self._clock = clock
        self._head = head
        self._peers = peers
        self._leases = leases
        self._store = store
        self._events = events
        self._history = history
        self._rounds: Gathering[_Answer] = Gathering()
        history.when_ended = self._rounds.on_process_end  # an ended process does not answer

    def handle_in(self, from_head: MessageTable, from_processes: PeerMessageTable) -> None:
        """Register the handlers for the head's questions and the answers of processes."""
        from_head.on(GatherState, self.gather)
        from_processes.on(RowsReported, self._reported)

    def gather(self, message: GatherState) -> None:
        """Gather this node's rows for a listing of the head."""
        query = message.query
        selection = Selection(query)

        def finish(answers: dict[bytes, _Answer], silent: list[bytes]) -> None:
            for answer in answers.values():
                selection.add(answer.part)
            if query.kind == "tasks":
                offer_finished(selection, self._left_tasks(answers), finished_task_row)
            part = selection.part()
            pids = {worker_id_of(record.process): record.pid for record in self._history.all()}
            for row in part.rows:
                self._complete(row, pids)
            unheard = [self._named(process) for process in silent]
            # Tasks of owners on other nodes, and their arguments, need the pids of this node's
            # workers, too.
            living = self._history.living() if query.kind in ("tasks", "objects") else []
            theirs = {worker_id_of(record.process): record.pid for record in living}
            self._head.report(StateReported(message.number, part, unheard, theirs))

        if query.kind == "workers":
            selection.offer_all(self._worker_rows(message.ip))
        elif query.kind == "stores":
            selection.offer(self._store_row())
        is_asked = query.kind in OF_PROCESSES and len(self._rounds) < MAX_ROUNDS
        asked = [peer.peer for peer in self._peers.local()] if is_asked else []

        def ask(number: int) -> None:
            for process in asked:
                self._peers.post(process, GatherRows(number, query, message.ip))

        until = self._clock() + message.within_s * (1 - KEEP_PART)
        self._rounds.begin(asked, until, ask, finish)

    def _reported(self, peer: Peer, message: RowsReported) -> None:
        answer = _Answer(message.part, self._events.received)
        self._rounds.answered(peer.peer, message.number, answer)

    def tick(self, now: float) -> None:
        """Finish the listings whose time is up."""
        self._rounds.tick(now)

    def _named(self, process: bytes) -> str:
        record = self._history.get(process)
        kind = "process" if record is None else record.kind.lower()
        pid = 0 if record is None else record.pid
        return f"{kind} {pid} of node {self._node_id}"

    # ---- tasks -------------------------------------------------------------------------------

    def _left_tasks(self, answers: dict[bytes, _Answer]) -> Iterator[tuple[bytes, Run]]:
        """Yield the finished tasks, with their owners, about which no owner has answered.

        Workers leave their finished tasks to the node, and drivers that have ended or are silent do
        not answer. Tasks in reports that a worker sent after its answer are left out, because the
        answer has them already.
        """
        counts = {owner: answer.reports_before for owner, answer in answers.items()}
        for owner, run in self._events.runs(counts):
            record = self._history.get(owner)
            is_worker = record is not None and record.kind == "WORKER"
            if is_worker or owner not in answers:
                yield owner, run

    def _complete(self, row: Row, pids: dict[str, int]) -> None:
        """Fill in the fields of a row that only the node knows."""
        if row.get("node_id") == self._node_id[: 2 * PREFIX_BYTES]:
            row["node_id"] = self._node_id
        if "worker_pid" in row:
            row["worker_pid"] = pids.get(str(row.get("worker_id")))
        if "process_id" in row and row["pid"] is None:
            row["pid"] = pids.get(worker_id_of(bytes.fromhex(row["process_id"])))

    # ---- workers and objects -----------------------------------------------------------------

    def _worker_rows(self, ip: str) -> Iterator[Row]:
        for record in self._history.all():
            yield {**self._process_row(record, ip), **self._activity(record)}

    def _process_row(self, record: ProcessRecord, ip: str) -> Row:
        is_alive = not record.ended
        began = milliseconds(record.began)
        return {
            "worker_id": worker_id_of(record.process),
            "is_alive": is_alive,
            "worker_type": record.kind,
            "exit_type": None if is_alive else _EXITS.get(record.how, "SYSTEM_ERROR"),
            "node_id": self._node_id,
            "ip": ip,
            "pid": record.pid,
            "exit_detail": record.reason or None,
            "worker_launch_time_ms": began,
            "worker_launched_time_ms": began,
            "start_time_ms": began,
            "end_time_ms": milliseconds(record.ended) or 0,
            "debugger_port": 0,
            "num_paused_threads": 0,
            "job_id": record.process[12:].hex(),
        }

    def _activity(self, record: ProcessRecord) -> Row:
        """Return the fields that say what a living worker is used for."""
        worker = self._leases.workers.get(record.process)
        if worker is None:
            return {}
        lease = self._leases.leases.get(worker.lease)
        if lease is None:
            return {"activity": "idle"}
        blocked = "waits in get" if lease.is_blocked else "leased"
        return {
            "activity": "actor" if lease.demand.actor else blocked,
            "actor_id": lease.demand.actor.hex() or None,
            "resources": lease.resources,
        }

    def _store_row(self) -> Row:
        accounting = self._store.accounting
        return {
            "node_id": self._node_id,
            **accounting.counts(),
            "pinned_bytes": self._store.pinned_bytes,
            "files": accounting.files(),
        }
