"""Ways to processes of other nodes that end while both sides live, and what is made up for then.

What an owner and its borrowers told each other may have been lost with the connection. So each
keeps what it had of the other, somebody dials again, and the first thing said on the new connection
is what is held and what is still wanted.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from phalanx.model.ids import PREFIX_BYTES
from phalanx.owner.redialling import BORROWER_DIALS_S, DIAL_AGAIN_S, Redialling
from phalanx.protocol.handshake import Status
from phalanx.protocol.messages import PROTOCOL_VERSION, CancelOwned, Hello

if TYPE_CHECKING:
    from phalanx.engines.embedded.client.runtime import Runtime
    from phalanx.engines.processes.connection import Connection

_MAY_PASS = (Status.NO_NODE, Status.UNREACHABLE, Status.BUSY)
"""Reasons why a process was not reached that say nothing of whether it lives."""


class Ways:
    """Called with the runtime's lock held."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._redialling = Redialling(runtime.peer, self._is_there, self._given_up)
        self._ended: set[bytes] = set()
        """Processes to which a connection ended, and that may hold something of ours or we of
        theirs: what we hold is said first on the next."""
        self._dead_nodes: set[bytes] = set()
        self._unsure: frozenset[bytes] = frozenset()
        """Borrowers that had not said what they hold at the last look."""
        self._look_at = 0.0

    def __len__(self) -> int:
        """How many processes are dialled again."""
        return len(self._redialling)

    def _is_there(self, process: bytes) -> bool:
        connection = self._runtime.known_peer(process)
        return connection is not None and not connection.is_dialling

    # ---- a connection begins -----------------------------------------------------------------

    def hello(self, process: bytes) -> Hello:
        """How a process introduces itself to another that it dials."""
        me = self._runtime
        return Hello(PROTOCOL_VERSION, me.process_id, me.kind, 0, process in self._ended)

    def begin(self, connection: Connection) -> None:
        """Say first what the last connection to this process did not bring there."""
        process = connection.peer
        if process in self._ended:
            self._ended.discard(process)
            self._runtime.references.say_anew(connection)
            self._runtime.values.ask_anew(connection)
        for message in self._redialling.unsent(process):
            connection.post(message)
        self._runtime.mark_dirty(connection)

    def introduced(self, connection: Connection, message: Hello) -> None:
        """Another process has dialled, or asks over the connection that there is what we hold."""
        process = connection.peer = message.process
        runtime = self._runtime
        before = runtime.known_peer(process)
        if message.again:
            self._ended.add(process)
            if before is not None and before is not connection and not before.is_dialling:
                runtime.drop(before)  # it has ended at the other side
        if runtime.adopt_peer(connection):
            is_unsure = process in self._ended and not message.again
            self.begin(connection)
            if is_unsure:  # its side has forgotten that there was a connection before
                connection.post(self._again())

    def _again(self) -> Hello:
        return Hello(PROTOCOL_VERSION, self._runtime.process_id, self._runtime.kind, 0, True)

    # ---- a connection ends -------------------------------------------------------------------

    def ended(self, connection: Connection) -> None:
        """The connection to another process has ended, or could not be made."""
        if self._may_live(connection):
            self._dial_again(connection)
        else:
            self.gone(connection.peer)

    def _may_live(self, connection: Connection) -> bool:
        peer = connection.peer
        is_gone = self._runtime.is_here(peer) or self.is_dead(peer) or self._runtime.closed
        is_refused = connection.is_dialling and connection.refusal_status not in _MAY_PASS
        return not (is_gone or is_refused)

    def _dial_again(self, connection: Connection) -> None:
        """If objects of ours are held there, or theirs here. What concerns tasks and calls is
        theirs to try again."""
        peer, now = connection.peer, time.monotonic()
        references = self._runtime.references
        may_hold = references.lending.way_ended(peer)
        wants = references.holds_of(peer) or self._runtime.values.wants_of(peer)
        unsent = [m for m in connection.unsent() if isinstance(m, CancelOwned)]
        if not (may_hold or wants or unsent):
            return
        self._ended.add(peer)
        if connection.is_dialling:
            self._redialling.refused(peer, unsent, connection.refusal, now)
        elif wants:
            # Not both at the same time, as each may hold objects of the other.
            is_first = self._runtime.process_id < peer
            self._redialling.ended(peer, now + (DIAL_AGAIN_S if is_first else 3 * DIAL_AGAIN_S))
        else:
            self._redialling.ended(peer, now + BORROWER_DIALS_S)
        self._runtime.reactor.tick_soon()

    def gone(self, process: bytes) -> None:
        """The process is dead: its objects are lost, and it holds none of ours."""
        self._redialling.gone(process)
        self._ended.discard(process)
        self._given_up(process)

    def _given_up(self, process: bytes, unreached: str = "") -> None:
        self._runtime.references.process_gone(process)
        self._runtime.values.process_gone(process, unreached)

    def is_dead(self, process: bytes) -> bool:
        """Whether the control store has given up the node of a process."""
        return process[:PREFIX_BYTES] in self._dead_nodes

    def node_died(self, prefix: bytes) -> None:
        """Another node is dead, and so are all its processes."""
        self._dead_nodes.add(prefix)

    def node_buried(self, prefix: bytes) -> None:
        """Who waits for a process of a dead node, to which there was no connection, is told."""
        self._redialling.node_died(prefix)
        self._ended = {p for p in self._ended if not p.startswith(prefix)}

    def tick(self, now: float) -> None:
        """Time has passed."""
        self._redialling.tick(now)
        if now >= self._look_at:
            self._look_at = now + BORROWER_DIALS_S
            self._ask_again(now)

    def _ask_again(self, now: float) -> None:
        """Of borrowers that still have not said what they hold, as where both sides dialled and one
        of the two ways ended before it was said."""
        unsure = frozenset(self._runtime.references.lending.unsure())
        for process in sorted(unsure & self._unsure):
            connection = self._runtime.known_peer(process)
            if connection is None:
                self._ended.add(process)
                self._redialling.ended(process, now)
            elif not connection.is_dialling:
                self._runtime.post(connection, self._again())
        self._unsure = unsure
