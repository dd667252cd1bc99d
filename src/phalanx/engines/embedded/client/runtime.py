"""One process of a session, driver or worker: its sockets, its machines, its lock.

Drivers and workers are the same thing here: both own tasks and objects, call actors and wait. A
worker has an executor besides, which is given the messages that bring it work.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import socket
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

from phalanx.engines.embedded.client.calls import Calls
from phalanx.engines.embedded.client.incoming import Incoming
from phalanx.engines.embedded.client.reactor import Reactor, Waiter
from phalanx.engines.embedded.client.references import References
from phalanx.engines.embedded.client.requests import Requests
from phalanx.engines.embedded.client.submission import Submission
from phalanx.engines.embedded.client.values import Callback, Values
from phalanx.engines.embedded.client.ways import Ways
from phalanx.engines.processes.connection import Connection, connect, listen, same_user
from phalanx.engines.processes.session import Session
from phalanx.errors import AuthenticationError
from phalanx.model.ids import INDEX_BITS, PREFIX_BYTES
from phalanx.objects.reference import ObjectRef, forget_process, process
from phalanx.objects.shared_memory import SharedStore
from phalanx.objects.streams import Stream
from phalanx.observe.cluster_events import EventRing
from phalanx.owner.redialling import DIAL_AGAIN_S
from phalanx.protocol.cluster_messages import Happened
from phalanx.protocol.messages import (
    Message,
)
from phalanx.protocol.node_messages import (
    Dropped,
    Events,
    LogLine,
    ReadersTold,
    Sealed,
    Settled,
    Used,
    WorkerDied,
)

_NODE = b"node"
_BUSY_TICK_S = 0.02
_IDLE_TICK_S = 1.0


class Executor(Protocol):
    """What a worker does with the messages that are not about its own tasks."""

    def handle(self, connection: Connection, message: Message) -> bool:
        """Take one message; False when it is not for the executor."""
        ...

    def peer_lost(self, peer: bytes) -> None:
        """An owner's connection ended."""
        ...

    def stop(self, reason: str) -> None:
        """End the process when it can."""
        ...

    def taken(self, peer: bytes, number: int) -> None:
        """The reader of a result holds the references in it by itself now."""
        ...

    def tick(self, now: float) -> None:
        """Time has passed."""
        ...

    def inputs_from(self, prefix: bytes) -> list[str]:
        """Files of a node's processes that work which has not begun will read."""
        ...

    def block(self) -> bool:
        """The calling thread's task waits; whether there is one."""
        ...

    def unblock(self) -> None:
        """It goes on."""
        ...


class Runtime:
    """The process's side of a session."""

    def __init__(self, session: Session, process_id: bytes, kind: str) -> None:
        self.session = session
        self.process_id = process_id
        self.kind = kind
        self.lock = threading.RLock()
        self._sequence = itertools.count(1)
        self._peers: dict[bytes, Connection] = {}
        self._dirty: set[Connection] = set()
        self._dead: set[bytes] = set()
        self._unsettled: set[bytes] = set()
        """Workers that died and whose last messages are still to be read."""
        self.requests = Requests(self)
        self.reactor = Reactor(
            Incoming(self).handle, self._lost, self._accepted, self._tick, self.flush
        )
        self.node: Connection
        self.node_id = ""
        self.executor: Executor | None = None
        self.on_log: Callable[[LogLine], None] | None = None
        self.on_warning: Callable[[str], None] | None = None
        self.on_node_lost: Callable[[], None] | None = None
        self.store = SharedStore(
            session.shared,
            session.spill,
            process_id.hex(),
            self._reserve,
            self._sealed,
            self._returned,
        )
        self.references = References(self)
        self.values = Values(self, self.store)
        self.ways = Ways(self)
        self.abandoned: deque[Stream] = deque()
        self.events = EventRing()
        """What concerns other nodes and was not told to this one yet."""
        self.tasks = Submission(self)
        self.calls = Calls(self)
        self.closed = False
        self.listener: socket.socket | None = None

    # ---- up and down -------------------------------------------------------------------------

    def open(self, node: Connection) -> None:
        """Listen under our own id, and use this connection to the node."""
        self.listener = listen(self.session.socket_of(self.process_id))
        self.reactor.listen(self.listener)
        self.node = node
        node.peer = _NODE
        self._peers[_NODE] = node
        self.reactor.add(node)
        process.hooks = self

    def set_identity(self, process_id: bytes, node_id: str) -> None:
        """The id that the node gave this driver."""
        self.process_id = process_id
        self.node_id = node_id
        self.store.set_prefix(process_id.hex())

    def wait_stream(self, stream: Stream, index: int, timeout_s: float | None) -> bool:
        """Wait until item `index` of a stream is there or it ended. False: time is up."""
        waiter = Waiter()
        with self.lock:
            if stream.arrived_to >= index or stream.is_ended:
                self.flush()
                return True
            stream.waiters.append(waiter.finish)
        self.flush()
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        while not self.reactor.wait(waiter, deadline):
            if deadline is not None and time.monotonic() >= deadline:
                return stream.arrived_to >= index or stream.is_ended
        if stream.arrived_to >= index or stream.is_ended:
            return True
        left = None if deadline is None else max(deadline - time.monotonic(), 0)
        return self.wait_stream(stream, index, left)

    def stream_consumed(self, stream: Stream, index: int) -> None:
        """The reader has taken item `index`: a producer that is held back may go on."""
        if stream.on_consumed is not None:
            stream.on_consumed(index)

    def close(self) -> None:
        """Cut every connection. Nothing may be waiting."""
        self.closed = True
        if process.hooks is self:
            process.hooks = None
        self.reactor.stop()
        with contextlib.suppress(Exception):
            self.store.trim()
        self.reactor.close()

    def leave_behind(self) -> None:
        """In a forked child: it is no part of the session, and must not keep its sockets open."""
        self.closed = True
        if process.hooks is self:
            process.hooks = None
        forget_process(self.process_id)
        self.reactor.close_inherited()

    def next_number(self) -> int:
        """The number of a new object that no task makes."""
        return next(self._sequence) << INDEX_BITS

    def next_sequence(self) -> int:
        """The number of a new task."""
        return next(self._sequence)

    # ---- peers -------------------------------------------------------------------------------

    def peer(self, process_id: bytes) -> Connection | None:
        """The connection to a process, made when there is none; None when it is gone."""
        found = self._peers.get(process_id)
        if found is not None:
            return found
        if process_id in self._dead or self.closed:
            return None
        try:
            connection = self._connect(process_id)
        except OSError:
            return None
        connection.peer = process_id
        self._peers[process_id] = connection
        with self.lock:
            connection.send(self.ways.hello(process_id))
            self.ways.begin(connection)
        self.reactor.add(connection)
        return connection

    def adopt_peer(self, connection: Connection) -> bool:
        """A connection that its process has made is used from here as well, unless there is one."""
        return self._peers.setdefault(connection.peer, connection) is connection

    def drop(self, connection: Connection) -> None:
        """Give a connection up, as if it had ended."""
        self.reactor.drop(connection)
        self._lost(connection)

    def _connect(self, process_id: bytes) -> Connection:
        prefix = process_id[:PREFIX_BYTES]
        if self.is_here(process_id):
            return connect(self.session.socket_of(process_id))
        if self.ways.is_dead(process_id):
            raise ConnectionRefusedError(f"node {prefix.hex()} is dead")
        from phalanx.engines.embedded.gateway.gate import request_dial

        return Connection(request_dial(self.session, process_id), is_dialling=True)

    def is_here(self, process_id: bytes) -> bool:
        """Whether a process is of this node: then the end of its connection is its own end."""
        return process_id[:PREFIX_BYTES] == self.process_id[:PREFIX_BYTES]

    def connections(self) -> list[Connection]:
        """Every open connection to another process."""
        return list(self._peers.values())

    def known_peer(self, process_id: bytes) -> Connection | None:
        """The connection to a process if there is one."""
        return self._peers.get(process_id)

    def post(self, connection: Connection, message: Message) -> None:
        """Send with the next flush, which is made to come soon."""
        connection.post(message)
        self._dirty.add(connection)
        self.reactor.kick()

    def mark_dirty(self, connection: Connection) -> None:
        """The connection has posted messages that should leave soon."""
        self._dirty.add(connection)
        self.reactor.kick()

    def flush(self) -> None:
        """Let everything posted leave: tasks that may be sent ahead, releases, messages."""
        if self.tasks.machine.dirty:
            with self.lock:
                self.tasks.machine.pump_dirty()
        if self.references.released:
            with self.lock:
                self.references.flush_released()
        if self.calls.released:
            self.calls.flush_released()
        if self.abandoned:
            with self.lock:
                while self.abandoned:
                    self.abandoned.popleft().abandon()
        if self.store.dropped:
            with self.lock:
                self.store.collect()
        while self._dirty:
            try:
                self._dirty.pop().flush()
            except KeyError:
                break

    def _accepted(self, sock: socket.socket) -> None:
        try:
            same_user(sock)
        except (AuthenticationError, OSError):
            sock.close()
            return
        self.reactor.add(Connection(sock, is_stranger=True))

    def _lost(self, connection: Connection) -> None:
        peer = connection.peer
        if connection is self.node:
            self._node_lost()
            return
        if not peer or self._peers.get(peer) is not connection:
            return
        del self._peers[peer]
        if self.is_here(peer):
            self._dead.add(peer)
        with self.lock:
            self.tasks.workers.connection_ended(connection, is_node_gone=self.closed)
            self.calls.clients.connection_ended(connection)
            self.ways.ended(connection)
        if self.executor is not None:
            self.executor.peer_lost(peer)
        if peer in self._unsettled:
            self._unsettled.discard(peer)
            self.post(self.node, Settled(peer))

    def _node_lost(self) -> None:
        self.closed = True
        with self.lock:
            self.requests.node_lost()
            self.tasks.node_lost()
            self.calls.node_lost()
        if self.executor is not None:
            # At once: no task may take the end of its node for its own failure and report that.
            os._exit(1)
        if self.on_node_lost is not None:
            self.on_node_lost()

    def _tick(self, now: float) -> float:
        with self.lock:
            is_busy = self.tasks.tick(now)
            self.calls.clients.tick(now)
            self.ways.tick(now)
            if self.executor is not None:
                self.executor.tick(now)
            runs = self.tasks.journal.drain_runs() if self.kind == "worker" else []
        if runs:
            self.post(self.node, Events([tuple(run) for run in runs]))
        self.tell_events()
        self.flush()
        if is_busy:
            return _BUSY_TICK_S
        return DIAL_AGAIN_S if self.ways else _IDLE_TICK_S

    def tell_events(self) -> None:
        """Let the node keep what this process recorded."""
        if self.events and not self.closed:
            self.post(self.node, Happened(self.events.drain()))

    # ---- news of ends ------------------------------------------------------------------------

    def worker_died(self, message: WorkerDied) -> None:
        """The node says that a worker is gone. The lock is held."""
        self.tasks.workers.worker_died(message)
        self.ways.gone(message.worker)
        if message.worker in self._peers:
            self._unsettled.add(message.worker)
        else:
            self.post(self.node, Settled(message.worker))

    def node_died(self, prefix: bytes) -> None:
        """Another node is dead, and so are all its processes. The lock is held."""
        self.ways.node_died(prefix)
        for peer, connection in list(self._peers.items()):
            if peer[:PREFIX_BYTES] == prefix:
                self.drop(connection)
        with self.lock:
            self.ways.node_buried(prefix)
        self.values.node_lost(prefix)
        queued = [] if self.executor is None else self.executor.inputs_from(prefix)
        for name in (*self.references.read_from(prefix), *queued):
            self.post(self.node, Used(name))
        self.post(self.node, ReadersTold(prefix))

    # ---- what the shared store asks ----------------------------------------------------------

    def _reserve(self, wanted: int) -> int:
        granted: int = self.requests.ask("reserve", wanted=wanted)
        return granted

    def _sealed(self, name: str, size: int) -> None:
        self.post(self.node, Sealed(name, size))

    def _returned(self, name: str, credit_bytes: int) -> None:
        if not self.closed:
            self.post(self.node, Dropped(name, credit_bytes))

    # ---- what references ask (RefHooks) ------------------------------------------------------

    def adopt(self, owner: bytes, number: int) -> ObjectRef[Any]:
        """The one ObjectRef of this process for that object."""
        with self.lock:
            return self.references.adopt(owner, number)

    def export(self, ref: ObjectRef[Any]) -> None:
        """The reference leaves inside a value."""
        self.references.export(ref)

    def pin_forever(self, ref: ObjectRef[Any]) -> None:
        """The reference left outside any value that is followed."""
        with self.lock:
            self.references.pin_forever(ref)

    def on_ready(self, ref: ObjectRef[Any], callback: Callable[[], None]) -> None:
        """Call back once the object is there."""
        with self.lock:
            if ref._value is None:
                self.values.add_waiter(ref, Callback(callback))
                self.values.fetch(ref)
                self.reactor.kick()
                return
        callback()

    def value_of(self, ref: ObjectRef[Any]) -> Any:
        """The value of a ready reference; raises its error, or Vanished."""
        return self.values.read(ref)
