"""The runtime of one process, a driver or a worker: its owner, with sockets and shared memory.

This module builds the parts, and turns what the reactor reports into events of the owner.
"""

from __future__ import annotations

import contextlib
import os
import socket
import sys
import threading
import time
from collections.abc import Callable
from typing import Protocol

from phalanx.errors import AuthenticationError
from phalanx.model.system_settings import SystemSettings
from phalanx.objects import reference
from phalanx.objects.file_hold import living_holds
from phalanx.objects.oversize_errors import stand_in
from phalanx.objects.reference import forget_process, living_references
from phalanx.owner.core import LocalWork, OwnerCore
from phalanx.owner.shell import OwnerShell
from phalanx.protocol.frames import Unsendable
from phalanx.protocol.messages import Message
from phalanx.protocol.node_messages import Dropped, GivenBack, Kept, LogLine, Sealed, Spilled
from phalanx.protocol.requests.node import ReserveMemory
from phalanx.runtime.driver import call_sites, handles
from phalanx.runtime.driver.incoming import Executor, Incoming
from phalanx.runtime.driver.reactor import Reactor
from phalanx.runtime.driver.reference_hooks import ReferenceHooks
from phalanx.runtime.driver.requests import NodeRequests
from phalanx.runtime.driver.transport import NodeConnection, SocketTransport
from phalanx.runtime.driver.values import Packer, Values
from phalanx.runtime.driver.waiting import Waiting, WaitingTask
from phalanx.runtime.engine.program_metrics import PROGRAM
from phalanx.runtime.os.connection import Connection, listen
from phalanx.runtime.os.own_pid import own_pid
from phalanx.runtime.os.own_time import own_time
from phalanx.runtime.os.peer_user import same_user
from phalanx.runtime.os.session import Session
from phalanx.runtime.os.shared_memory import SharedStore
from phalanx.runtime.os.stacks import thread_stacks

IGNORE_UNHANDLED = "RAY_IGNORE_UNHANDLED_ERRORS"


class LocalExecutor(Executor, LocalWork, WaitingTask, Protocol):
    """The part of a worker that runs the work of owners."""

    def tick(self, now: float) -> None:
        """Do the work that is due."""

    def send_late(self) -> None:
        """Send the results that have been held back long enough to be sent together with other
        results.
        """


def _print_error(text: str) -> None:
    with contextlib.suppress(OSError, ValueError):  # the stream is closed, so nobody reads this
        print(text, file=sys.stderr, flush=True)


def _report_to(show: Callable[[str], None]) -> Callable[[str], None]:
    """Return the function that is called with the text of each failure that nobody has read. It
    passes the text to `show`, unless Ray's variable IGNORE_UNHANDLED is set.
    """

    def report(text: str) -> None:
        if IGNORE_UNHANDLED not in os.environ:
            show(text)

    return report


class Runtime:
    """The runtime of this process, which is a driver or a worker: its owner, and the owner's
    sockets and shared memory.
    """

    def __init__(
        self,
        session: Session,
        process_id: bytes,
        kind: str,
        node: Connection,
        *,
        on_log: Callable[[LogLine], None] | None = None,
        on_warning: Callable[[str], None] | None = None,
    ) -> None:
        """`process_id`: the id by which the node knows this process. `node`: the connection to the
        node. `kind`: "driver" or "worker".
        """
        self.session = session
        self.process_id = process_id
        self.kind = kind
        self.lock = threading.RLock()
        self.reactor = Reactor(
            self._too_early, self._lost, self._accepted, self._tick, self.flush, self._unsendable
        )
        self._transport = SocketTransport(session, process_id, self.reactor)
        self.node = NodeConnection(node, self._transport)
        self.store = SharedStore(
            session.shared,
            session.spill,
            process_id.hex(),
            self._reserve,
            lambda name, size: self.node.post(Sealed(name, size)),
            self._returned,
            lambda name: self.node.post(Kept(name)),
            lambda name: self.node.post(GivenBack(name)),
        )
        self.packer = Packer(self.store)
        self.owner = OwnerCore(
            process_id,
            kind,
            OwnerShell(
                transport=self._transport,
                outbox=self._transport,
                node=self.node,
                files=self.store,
                pack=self.packer.pack,
                clock=own_time,
                wall=time.time,
                request_tick=self.reactor.request_tick,
                warn=on_warning or (lambda text: None),
                report=_report_to(on_warning or _print_error),
            ),
            program_numbers=PROGRAM.drain,
        )
        owner = self.owner
        owner.state.pid = own_pid()
        owner.state.stacks = thread_stacks
        owner.state.living, owner.state.living_holds = living_references, living_holds
        self.requests = NodeRequests(owner.requests, self.node, self.reactor, self.flush)
        self.values = Values(
            process_id, self.store, owner.objects, self.node, self.requests, self.lock
        )
        self.waiting = Waiting(
            process_id,
            self.reactor,
            self.lock,
            self.flush,
            owner.objects,
            owner.references,
            owner.tasks,
            self.values,
            owner.name_of,
            owner.why_absent,
        )
        self.hooks = ReferenceHooks(
            self.lock,
            owner.references,
            owner.objects,
            self.values,
            self.waiting,
            owner.abandoned,
            self.reactor.kick,
        )
        if call_sites.are_recorded():
            self._record_places()
        self.caller = handles.Caller(
            process_id, self.lock, owner.calls, self.packer.pack, self.hooks, self.reactor.kick
        )
        self._incoming = Incoming(owner, node, self.lock, self._on_other, self._drop)
        # without a function call between these statements
        self.reactor.handle = self._incoming.handle
        self._executor: LocalExecutor | None = None
        self._on_log = on_log

    # ---- up and down -------------------------------------------------------------------------

    def open(self) -> None:
        """Listen under this process's id, and begin to read the node's messages. From now on,
        references and handles of this process use this runtime.
        """
        self.reactor.listen(listen(self.session.socket_of(self.process_id)))
        self.node.connection.peer = b"node"
        self.reactor.add(self.node.connection)
        reference.process.hooks = self.hooks
        handles.process.caller = self.caller

    def apply_settings(self, settings: SystemSettings) -> None:
        """Apply the cluster's settings, in place of the defaults."""
        self.packer.inline_bytes = settings.inline_bytes
        if settings.idle_lease_ms is not None:
            self.owner.tasks.machine.idle_return_s = settings.idle_lease_ms / 1000
        reconstruction = self.owner.reconstruction
        reconstruction.makes_again = settings.makes_again
        reconstruction.lineage.limit_bytes = settings.lineage_bytes
        if settings.records_places and self.owner.objects.note_made is None:
            self._record_places()

    def _record_places(self) -> None:
        owner, sites = self.owner, call_sites.CallSites()
        owner.state.call_site, owner.state.has_call_sites = sites.of, True
        owner.reconstruction.call_site = self.hooks.call_site = sites.of
        owner.tasks.note_made = owner.calls.note_made = owner.objects.note_made = sites.note

    def attach(self, executor: LocalExecutor) -> None:
        """Make this process a worker, which runs work of owners."""
        self._executor = executor
        self._incoming.executor = executor
        self.owner.local_work = executor
        self.waiting.running = executor

    @property
    def is_closed(self) -> bool:
        """Whether the node has ended, or this process has left it."""
        return self.node.is_gone

    def close(self) -> None:
        """Close every connection. No thread may be waiting."""
        self._leave()
        self.reactor.stop()
        with contextlib.suppress(Exception):
            self.store.trim()
        self.reactor.close()

    def leave_behind(self) -> None:
        """Leave the session in a forked child, which must not keep its parent's sockets open."""
        self._leave()
        forget_process(self.process_id)
        self.reactor.close_inherited()

    def _leave(self) -> None:
        self.node.is_gone = True
        self.owner.shut_down()
        if reference.process.hooks is self.hooks:
            reference.process.hooks = None
        if handles.process.caller is self.caller:
            handles.process.caller = None

    def connections(self) -> list[Connection]:
        """Return every open connection to another process."""
        peers = [c for c in self.owner.peers.all() if isinstance(c, Connection)]
        return [self.node.connection, *peers]

    # ---- the reactor's calls ---------------------------------------------------------------------

    def _too_early(self, connection: Connection, messages: list[Message]) -> None:
        raise AssertionError(f"{messages} came before this process could handle messages")

    def _accepted(self, sock: socket.socket) -> None:
        try:
            same_user(sock)
        except (AuthenticationError, OSError):
            sock.close()
            return
        self.reactor.add(Connection(sock, is_stranger=True))

    def _on_other(self, connection: Connection, message: Message) -> None:
        match message:
            case Spilled():
                self.store.unmap_spilled(message.names)
            case GivenBack():
                self.store.give_back(message.name)
            case LogLine():
                if self._on_log is not None:
                    self._on_log(message)
            case _:  # Stop, and messages that no process should be sent
                self.reactor.drop(connection)

    def _lost(self, connection: Connection) -> None:
        if connection is self.node.connection:
            self._node_lost()
            return
        with self.lock:
            self.owner.connection_ended(connection)

    def _unsendable(self, connection: Connection, message: Unsendable) -> None:
        standing_in = stand_in(message)
        if standing_in is None:
            print(f"phalanx: a message was not sent: {message.reason}", file=sys.stderr)
            self.reactor.drop(connection)
            self._lost(connection)
        elif standing_in.is_for_sender:
            self._incoming.handle(connection, [standing_in.message])
        else:
            connection.send(standing_in.message)

    def _drop(self, connection: Connection) -> None:
        with self.lock:
            self.owner.drop(connection)

    def _node_lost(self) -> None:
        with self.lock:  # a thread that sees this does not ask workers that still run any more
            self.node.is_gone = True
            self.owner.node_lost()
        if self._executor is not None:
            # This is done at once, so that no task mistakes the end of its node for its own
            # failure.
            os._exit(1)

    def _tick(self, now: float) -> float:
        with self.lock:
            next_s = self.owner.tick(now)
            if self._executor is not None:
                self._executor.tick(now)
        self.flush()
        return next_s

    def flush(self) -> None:
        """Send waiting tasks and calls, late results and all posted messages. Release dropped
        objects.
        """
        if any(self.owner.unsent):
            with self.lock:
                self.owner.flush()
        if self.store.dropped:
            with self.lock:
                self.store.collect()
        if self._executor is not None:
            self._executor.send_late()
        if self._transport.dirty:
            self._transport.flush()

    # ---- the shared store's calls ----------------------------------------------------------------

    def _reserve(self, wanted: int) -> int:
        return self.requests.ask(ReserveMemory(wanted))

    def _returned(self, name: str, credit_bytes: int) -> None:
        if not self.node.is_gone:
            self.node.post(Dropped(name, credit_bytes))
