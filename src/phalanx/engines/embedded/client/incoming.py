"""Which part of a process each message is for, and who may say it."""

from __future__ import annotations

import time
import traceback
from collections.abc import Iterator
from typing import TYPE_CHECKING

from phalanx.errors import ProtocolError
from phalanx.protocol.cluster_messages import NodeDied
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
    Returned,
    Sync,
    Synced,
    Taken,
    Unborrow,
)
from phalanx.protocol.node_messages import (
    ActorUpdate,
    CreateActor,
    Granted,
    JobSetup,
    LeaseDue,
    LogLine,
    Refused,
    Reply,
    Spilled,
    Stop,
    Terminate,
    WorkerDied,
)

if TYPE_CHECKING:
    from phalanx.engines.embedded.client.runtime import Runtime
    from phalanx.engines.processes.connection import Connection

_NODE_ONLY = frozenset(
    {
        ActorUpdate,
        CreateActor,
        Granted,
        JobSetup,
        LeaseDue,
        LogLine,
        NodeDied,
        Refused,
        Reply,
        Spilled,
        Stop,
        Terminate,
        WorkerDied,
    }
)


class Incoming:
    """The table of what a process understands."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime

    def handle(self, connection: Connection, messages: list[Message]) -> None:
        """Take what came over a connection, in order."""
        left = iter(messages)
        try:
            self._handle_each(connection, left)
        except KeyboardInterrupt:
            # Ctrl-C while messages were handled: they came only once, so none may be dropped.
            self._handle_each(connection, left)
            raise
        except Exception:
            # A defect of ours, or a peer that lies: it must not take this process along.
            traceback.print_exc()
            if connection is not self._runtime.node:
                self._runtime.drop(connection)

    def _handle_each(self, connection: Connection, messages: Iterator[Message]) -> None:
        runtime = self._runtime
        executor = runtime.executor
        now = time.monotonic()
        done = Done
        for message in messages:
            if connection is not runtime.node and not _may_say(connection, message):
                raise ProtocolError(f"{type(message).__name__} from a process that may not say so")
            if type(message) is done:
                with runtime.lock:
                    if not runtime.calls.done(connection, message):
                        runtime.tasks.done(connection, message, now)
            elif executor is None or not executor.handle(connection, message):
                with runtime.lock:
                    self._dispatch(connection, message, now)

    def _dispatch(self, connection: Connection, message: Message, now: float) -> None:  # noqa: PLR0912, PLR0915
        runtime = self._runtime
        # One line a message, as far as that goes.
        match message:
            case Failed():
                if not runtime.calls.failed(connection, message):
                    runtime.tasks.failed(connection, message, now)
            case Item():
                runtime.tasks.item(connection, message)
            case Returned():
                runtime.tasks.returned(connection, message)
            case Leaving():
                runtime.tasks.workers.leaving(connection)
            case Granted():
                runtime.tasks.granted(message, now)
            case Refused():
                runtime.tasks.refused(message)
            case LeaseDue():
                runtime.tasks.machine.lease_due(message.lease)
            case WorkerDied():
                runtime.worker_died(message)
            case NodeDied():
                runtime.node_died(message.prefix)
            case ActorUpdate():
                runtime.calls.clients.updated(message)
            case Fetch():
                runtime.values.answer_fetch(connection, message.number)
                runtime.mark_dirty(connection)
            case Recover():
                runtime.values.answer_recover(connection, message)
                runtime.mark_dirty(connection)
            case Fetched():
                runtime.values.fetched(connection, message)
            case Borrow():
                for number in message.numbers:
                    runtime.references.lending.add(number, connection.peer)
            case Unborrow():
                for number, count in message.counts:
                    runtime.references.lending.remove(number, connection.peer, count)
            case Holds():
                runtime.references.lending.told(connection.peer, message.counts)
            case Sync():
                runtime.post(connection, Synced(message.token))
            case Synced():
                runtime.references.syncs.answered(message.token)
            case Taken():
                if runtime.executor is not None:
                    runtime.executor.taken(connection.peer, message.number)
            case CancelOwned():
                runtime.tasks.cancelling.cancel_number(
                    message.number, message.force, message.recursive
                )
            case Reply():
                runtime.requests.answered(message)
            case Spilled():
                runtime.store.let_go(message.names)
            case Hello():
                if message.version == PROTOCOL_VERSION:
                    runtime.ways.introduced(connection, message)
                else:
                    runtime.reactor.drop(connection)
            case LogLine():
                if runtime.on_log is not None:
                    runtime.on_log(message)
            case _:  # Stop, and what no process should be told
                runtime.reactor.drop(connection)


def _may_say(connection: Connection, message: Message) -> bool:
    """Whether a process that is not the node may send this: once introduced, and no orders."""
    kind = type(message)
    return kind not in _NODE_ONLY and (bool(connection.peer) or kind is Hello)
