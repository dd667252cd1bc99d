"""The owner: all machines with which one process submits work, holds objects and waits for both.

Drivers own what they submit, and so do workers. This module puts the machines together and chooses
which of them handles a message or the end of a connection.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

from phalanx.model.ids import INDEX_BITS
from phalanx.objects.reference import ObjectRef
from phalanx.objects.streams import Stream
from phalanx.observe.cluster_events import EventRing
from phalanx.observe.metrics.definitions import Numbers
from phalanx.observe.task_journal import KEEP_RUNS, Run, TaskJournal, encode_runs
from phalanx.owner.actors.calls import Calls
from phalanx.owner.actors.client import PendingCall
from phalanx.owner.actors.registration import Registration
from phalanx.owner.cancelling import Cancelling
from phalanx.owner.children import Children
from phalanx.owner.metrics import OwnerMetrics
from phalanx.owner.objects.owned import OwnedObjects
from phalanx.owner.objects.references import References
from phalanx.owner.peers.connections import Peers
from phalanx.owner.peers.reconnection import Reconnection
from phalanx.owner.peers.redialling import DIAL_AGAIN_S
from phalanx.owner.pending_reason import why_call, why_task
from phalanx.owner.requests import Requests
from phalanx.owner.shell import OwnerShell
from phalanx.owner.state_rows import StateRows
from phalanx.owner.tasks.gangs import OwnedGangs
from phalanx.owner.tasks.locality import Locality
from phalanx.owner.tasks.records import PendingTask
from phalanx.owner.tasks.submission import Submission
from phalanx.owner.transport import Connection
from phalanx.owner.work import PendingWork
from phalanx.protocol.asking import Reply
from phalanx.protocol.cluster_messages import Happened, NodeDied
from phalanx.protocol.messages import (
    PROTOCOL_VERSION,
    Borrow,
    CancelOwned,
    Done,
    Failed,
    Fetch,
    Fetched,
    Hello,
    Holds,
    Item,
    Leaving,
    Message,
    Recover,
    Results,
    Returned,
    Sync,
    Synced,
    Unborrow,
)
from phalanx.protocol.node_messages import (
    ActorUpdate,
    Events,
    GatherRows,
    Granted,
    LeaseDue,
    ReadersReported,
    Refused,
    RowsReported,
    Settled,
    Used,
    WorkerDied,
)

_BUSY_TICK_S = 0.02
"""Seconds between ticks while workers are leased, or while tasks rest before a retry."""
_IDLE_TICK_S = 1.0
"""Seconds between ticks if nothing is urgent."""
_REPORT_RUNS_EVERY_S = 1.0
"""Seconds between a driver's reports of finished tasks."""
_RUNS_OF_A_REPORT = 1_000
"""The largest number of finished tasks in a report. A driver that finishes more tasks keeps the
older ones itself.
"""


class LocalWork(Protocol):
    """The work that runs in this process for owners, if the process is a worker."""

    def connection_lost(self, connection: Connection) -> None:
        """Handle the end of a connection over which work may have come."""
        ...

    def peer_lost(self, process: bytes) -> None:
        """Handle the loss of the last connection to a process."""
        ...

    def inputs_from(self, prefix: bytes) -> list[str]:
        """Return the files that waiting work of this process will read and that processes of one
        node have written. `prefix`: the first bytes of the ids of these processes.
        """
        ...


class OwnerCore:
    """All machines of one owner. Its callers make sure that only one thread uses it at a time."""

    def __init__(
        self,
        me: bytes,
        kind: str,
        shell: OwnerShell,
        program_numbers: Callable[[], list[Numbers]] | None = None,
    ) -> None:
        """`kind`: driver or worker. `program_numbers` returns the program's own metrics since the
        last call; None if the program has none.
        """
        self._me = me
        self._kind = kind
        self._node = node = shell.node
        self._outbox = outbox = shell.outbox
        numbers = itertools.count(1)
        self.numbers = numbers
        """Yields numbers for this process's tasks, calls and objects. No number is used twice."""
        self.local_work: LocalWork | None = None
        self.abandoned: deque[Stream] = deque()
        """The streams that nobody reads any further. Finalizers append to this queue."""
        self.events = EventRing()
        """The events between nodes that were not reported to this node yet."""
        self.journal = TaskJournal()
        self._report_runs_at = 0.0
        self._unsettled: set[bytes] = set()
        """Dead workers whose last messages may still come."""
        self.requests = Requests(node)
        self.peers = peers = Peers(me, shell.transport, self._dialled)
        self.references = References(me, peers, outbox)
        self._locality = Locality(me, self.events, shell.files.is_here, shell.wall)
        owned = OwnedObjects(
            me,
            shell,
            peers=peers,
            references=self.references,
            on_stored=self._locality.stored,
            run_again=self._run_again,
        )
        self.objects = objects = owned.table
        self.reconstruction, self.unread = owned.reconstruction, owned.unread
        self.children = Children(self._is_pending)
        self.tasks = Submission(
            me,
            numbers,
            shell,
            peers=peers,
            objects=owned,
            locality=self._locality,
            children=self.children,
            journal=self.journal,
        )
        self.gangs = OwnedGangs(self.tasks, objects, self.requests, shell.clock)
        self.calls = Calls(
            me,
            numbers,
            shell,
            peers=peers,
            requests=self.requests,
            objects=owned,
            children=self.children,
            journal=self.journal,
        )
        self.unsent = (
            self.tasks.machine.dirty, self.calls.growing, self.references.released,
            self.calls.released, self.abandoned,
        )  # fmt: skip
        """The queues whose contents `flush` sends. Usually all of them are empty."""
        self.counts = program_numbers and OwnerMetrics(
            node,
            self.journal,
            self.tasks.machine,
            self.calls,
            self.reconstruction,
            program_numbers,
        )
        self.actors = Registration(me, numbers, self.requests, objects, self.references, self.calls)
        self.state = StateRows(
            me,
            kind,
            self.tasks,
            self.calls,
            objects,
            self.references.lending.borrowers,
            self.journal,
        )
        self.cancelling = Cancelling(
            self.tasks, self.calls, self.children, self.reconstruction.lineage, outbox, node
        )
        self.reconnection = Reconnection(
            me,
            kind,
            peers,
            outbox,
            self.references,
            objects,
            clock=shell.clock,
            drop=self.drop,
            request_tick=shell.request_tick,
        )

    def next_object(self) -> int:
        """Return the number of a new object that no task makes."""
        return next(self.numbers) << INDEX_BITS

    def name_of(self, ref: ObjectRef[Any]) -> str:
        """Return a description of an object for display. If its task is known here, it is
        included.
        """
        number = ref._number >> INDEX_BITS
        if ref._owner == self._me:
            task = self.tasks.machine.pending.get(number)
            if task is not None:
                return f"the result of task {task.template.name}"
            call = self.calls.by_number.get(number)
            if call is not None:
                return f"the result of the actor's method {call.method}"
        return f"object {ref.hex()}"

    def why_absent(self, ref: ObjectRef[Any]) -> str:
        """Return a clause that says why an object is not here yet, for display; "" if that is
        unknown.
        """
        number = ref._number >> INDEX_BITS
        if ref._owner != self._me:
            return ""
        machine = self.tasks.machine
        if (task := machine.pending.get(number)) is not None:
            return why_task(task, machine.class_of(task.key))
        call = self.calls.by_number.get(number)
        return "" if call is None else why_call(call)

    # ---- links between the machines --------------------------------------------------------------

    def _dialled(self, connection: Connection) -> None:
        self.reconnection.dialled(connection)

    def _run_again(self, work: PendingWork) -> None:
        if isinstance(work, PendingTask):
            self.tasks.run_again(work)
        else:
            assert isinstance(work, PendingCall)
            self.calls.start(work)

    def _is_pending(self, number: int) -> bool:
        return number in self.tasks.machine.pending or number in self.calls.by_number

    # ---- messages ----------------------------------------------------------------------------

    def done(self, connection: Connection, message: Done, now: float) -> None:
        """Handle the results of a task or call. Most messages are of this kind."""
        if not self.calls.done(connection, message):
            self.tasks.done(connection, message, now)

    def done_together(self, connection: Connection, message: Results, now: float) -> None:
        """Handle the results of tasks or calls with consecutive numbers."""
        count = min(len(message.values), len(message.started), len(message.ended))
        message = message.part(0, count)  # columns of different lengths come from a bad peer
        at, records = 0, self.calls.by_number.records
        while at < count:
            if message.first + at in records:  # such as each call that has a reference as argument
                self.calls.done(connection, message.one(at))
                at += 1
                continue
            taken = self.calls.done_together(connection, message, at)
            taken = taken or self.tasks.done_together(connection, message, at, now)
            if not taken:
                self.done(connection, message.one(at), now)
                taken = 1
            at += taken

    def handle(self, connection: Connection, message: Message, now: float) -> bool:  # noqa: PLR0912
        """Handle a message other than Done. Returns False if the message is not for an owner."""
        # One line for each message, if possible.
        match message:
            case Results():
                self.done_together(connection, message, now)
            case Failed():
                if not self.calls.failed(connection, message):
                    self.tasks.failed(connection, message, now)
            case Item():
                self._item(connection, message)
            case Returned():
                self.tasks.returned(connection, message.numbers)
            case Leaving():
                self.tasks.workers.leaving(connection)
            case Granted():
                self.tasks.granted(message, now)
            case Refused():
                self.tasks.refused(message)
            case LeaseDue():
                self.tasks.machine.lease_due(message.lease)
            case WorkerDied():
                self._worker_died(message)
            case NodeDied():
                self._node_died(message)
            case ActorUpdate():
                self.calls.clients.updated(message)
            case Reply():
                self.requests.on_reply(message)
            case GatherRows():
                part = self.state.part(message.query, message.ip)
                self._node.post(RowsReported(message.number, part))
            case Fetch() | Recover() | Fetched() | Sync() | Synced():
                self._on_object_message(connection, message)
            case Borrow() | Unborrow() | Holds():
                self._on_borrower_message(connection.peer, message)
            case CancelOwned():
                self.cancelling.cancel(message.number, message.force, message.recursive)
            case Hello():
                if message.version == PROTOCOL_VERSION:
                    self.reconnection.introduced(connection, message)
                else:
                    self.peers.close(connection)
            case _:
                return False
        return True

    def _item(self, connection: Connection, message: Item) -> None:
        if not (self.tasks.item(connection, message) or self.calls.item(connection, message)):
            self.objects.discard(message.value, connection.peer, message.number)

    def _on_object_message(
        self, connection: Connection, message: Fetch | Recover | Fetched | Sync | Synced
    ) -> None:
        match message:
            case Fetch():
                self.objects.answer_fetch(connection, message.number)
                self._outbox.flush_later(connection)
            case Recover():
                self.objects.answer_recover(connection, message)
                self._outbox.flush_later(connection)
            case Fetched():
                self.objects.fetched(connection, message)
            case Sync():
                self._outbox.post(connection, Synced(message.token))
            case Synced():
                self.references.syncs.answered(message.token)

    def _on_borrower_message(self, borrower: bytes, message: Borrow | Unborrow | Holds) -> None:
        lending = self.references.lending
        match message:
            case Borrow():
                for number in message.numbers:
                    lending.add(number, borrower)
            case Unborrow():
                for number, count in message.counts:
                    lending.remove(number, borrower, count)
            case Holds():
                lending.declare(borrower, message.counts)

    # ---- time --------------------------------------------------------------------------------

    def tick(self, now: float) -> float:
        """Let each machine do the work that is due. Returns the seconds until the next tick is
        due.
        """
        has_workers = self.tasks.tick(now)
        self.gangs.tick(now)
        self.calls.clients.tick(now)
        self.calls.unavailable.tick(now)
        self.reconnection.tick(now)
        self._report_runs(now)
        self.unread.report(now)
        if self.counts is not None:
            self.counts.tick(now)
        self.report_events()
        if has_workers:
            return _BUSY_TICK_S
        return DIAL_AGAIN_S if self.reconnection or self.calls.unavailable else _IDLE_TICK_S

    def _report_runs(self, now: float) -> None:
        """Report finished work to the node.

        The node keeps the finished work of workers. A driver keeps its own finished work, and
        reports the latest part from time to time, in case the driver is killed.
        """
        if self._kind == "worker":
            self._post_runs(self.journal.drain_runs())
        elif now >= self._report_runs_at:
            self._report_runs_at = now + _REPORT_RUNS_EVERY_S
            self._post_runs(self.journal.unreported_runs(_RUNS_OF_A_REPORT))

    def _post_runs(self, runs: list[Run]) -> None:
        if runs:
            self._node.post(Events(len(runs), encode_runs(runs)))

    def leave_runs(self) -> None:
        """Report this driver's finished work to its node, and its unfinished work as failed."""
        self.unread.report()
        if not self.peers.is_closed:
            self.tasks.record_left()
            self.calls.record_left()
            self._post_runs(self.journal.unreported_runs(KEEP_RUNS))
            if self.counts is not None:
                self.counts.say()

    def report_events(self) -> None:
        """Report the events between nodes that this process has recorded."""
        if self.events and not self.peers.is_closed:
            self._node.post(Happened(self.events.drain()))

    def flush(self) -> None:
        """Send the tasks and calls that may be sent in advance, request workers, and report
        released objects and actors.
        """
        self.tasks.machine.pump_dirty()
        self.calls.pump_growing()
        self.references.flush_released()
        self.calls.flush_released()
        while self.abandoned:
            self.abandoned.popleft().abandon()

    # ---- ends --------------------------------------------------------------------------------

    def connection_ended(self, connection: Connection) -> None:
        """Handle a connection to another process that has ended or could not be made."""
        if self.local_work is not None:
            self.local_work.connection_lost(connection)
        if not self.peers.ended(connection):
            return
        process = connection.peer
        self.tasks.workers.connection_ended(connection, is_node_gone=self.peers.is_closed)
        self.calls.clients.connection_ended(connection)
        self.reconnection.ended(connection)
        if self.local_work is not None:
            self.local_work.peer_lost(process)
        if process in self._unsettled:
            self._unsettled.discard(process)
            self._node.post(Settled(process))

    def drop(self, connection: Connection) -> None:
        """End a connection, with the same effects as if the other side had ended it."""
        self.peers.close(connection)
        self.connection_ended(connection)

    def _worker_died(self, message: WorkerDied) -> None:
        self.tasks.workers.worker_died(message)
        self.reconnection.on_process_death(message.worker)
        if self.peers.known(message.worker) is not None:
            self._unsettled.add(message.worker)
        else:
            self._node.post(Settled(message.worker))

    def _node_died(self, message: NodeDied) -> None:
        """Handle the death of another node and all its processes."""
        prefix = message.prefix
        for connection in self.peers.node_died(prefix):
            self.drop(connection)
        self.reconnection.node_died(prefix)
        self._locality.node_died(prefix)
        self.objects.node_lost(prefix)
        queued = [] if self.local_work is None else self.local_work.inputs_from(prefix)
        for name in (*self.references.read_from(prefix), *queued):
            self._node.post(Used(name))
        self.tasks.machine.node_deaths.node_died(prefix, message.death, message.reason)
        self._node.post(ReadersReported(prefix))

    def node_lost(self) -> None:
        """Handle the end of this node's process: no request to the node will ever be answered."""
        self.peers.shut_down()
        self.requests.node_lost()
        self.tasks.node_lost()
        self.calls.node_lost()

    def shut_down(self) -> None:
        """Leave the node."""
        self.peers.shut_down()
        self.tasks.shut_down()
        self.calls.shut_down()
