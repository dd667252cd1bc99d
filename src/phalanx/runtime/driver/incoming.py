"""Decides which part of a process handles each message, and whether the sender may send it."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any, Protocol

from phalanx.errors import ProtocolError
from phalanx.owner.core import OwnerCore
from phalanx.protocol.asking import Reply
from phalanx.protocol.cluster_messages import NodeDied
from phalanx.protocol.messages import Done, Hello, Message, Results
from phalanx.protocol.node_messages import (
    ActorUpdate,
    CreateActor,
    GatherRows,
    GivenBack,
    Granted,
    JobSetup,
    LeaseDue,
    LogLine,
    Refused,
    Spilled,
    Stop,
    Terminate,
    WorkerDied,
)
from phalanx.runtime.os.connection import Connection
from phalanx.runtime.os.own_time import own_time

_NODE_ONLY = frozenset(
    {
        ActorUpdate,
        CreateActor,
        GatherRows,
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
        GivenBack,
        WorkerDied,
    }
)


class Executor(Protocol):
    """The part of a worker that handles messages about work."""

    def handle(self, connection: Connection, message: Message) -> bool:
        """Handle one message. Returns False if the message is not for the executor."""
        ...


class Incoming:
    """Passes messages to the owner, the executor or another handler. The thread that leads the
    reactor calls it.
    """

    def __init__(
        self,
        owner: OwnerCore,
        node: Connection,
        lock: AbstractContextManager[Any],
        on_other: Callable[[Connection, Message], None],
        drop: Callable[[Connection], None],
    ) -> None:
        """`on_other`: handles the messages that are neither for the owner nor for an executor.
        `drop`: ends a connection, with the same effects as if the other side had ended it.
        """
        self._owner = owner
        self._node = node
        self._lock = lock
        self._on_other = on_other
        self._drop = drop
        self.executor: Executor | None = None
        """The executor of a worker; None in drivers."""

    def handle(self, connection: Connection, messages: list[Message]) -> None:
        """Handle the messages of a connection, in order."""
        left = iter(messages)
        is_handled = False
        while not is_handled:
            try:
                self._handle_each(connection, left)
                is_handled = True
            except KeyboardInterrupt:
                # Ctrl-C came while messages were handled. Each message comes only once, so none may
                # be dropped.
                self._handle_each(connection, left)
                raise
            except Exception:
                # A fault in Phalanx, or a peer that sends false messages, must not end this
                # process. The node's other messages must not be lost either.
                traceback.print_exc()
                if connection is not self._node:
                    self._drop(connection)
                    return

    def _handle_each(self, connection: Connection, messages: Iterator[Message]) -> None:
        executor, owner, node, lock = self.executor, self._owner, self._node, self._lock
        now = own_time()
        message = next(messages, None)
        while message is not None:
            kind = type(message)
            if connection is not node and (
                kind in _NODE_ONLY or not (connection.peer or kind is Hello)
                # Other peers may not give orders, and must introduce themselves first.
            ):
                raise ProtocolError(f"{kind.__name__} from a process that may not send it")
            if kind is Done:
                # The lock is taken once for all results. If it were taken for each result, this
                # thread and one that submits would take it alternately, with a thread switch for
                # every message.
                with lock:
                    while type(message) is Done:
                        owner.done(connection, message, now)
                        message = next(messages, None)
                continue
            if isinstance(message, Results):
                with lock:
                    owner.done_together(connection, message, now)
                message = next(messages, None)
                continue
            if executor is None or not executor.handle(connection, message):
                with lock:
                    if not owner.handle(connection, message, now):
                        self._on_other(connection, message)
            message = next(messages, None)
