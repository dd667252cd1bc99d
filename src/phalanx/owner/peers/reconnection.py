"""Reconnects to processes of other nodes when a connection ends while both sides live.

Messages between an owner and its borrowers may be lost with the connection. So each side keeps what
it knows about the other side. One of the two processes dials again. On the new connection, each
side first says which objects of the other side it holds, and for which of them it still waits.
"""

from __future__ import annotations

from collections.abc import Callable

from phalanx.owner.objects.references import References
from phalanx.owner.objects.table import ObjectTable
from phalanx.owner.peers.connections import Peers
from phalanx.owner.peers.redialling import BORROWER_DIALS_S, DIAL_AGAIN_S, Redialling
from phalanx.owner.transport import Connection, Outbox
from phalanx.protocol.handshake import Status
from phalanx.protocol.messages import PROTOCOL_VERSION, CancelOwned, Hello

_MAY_PASS = (Status.NO_NODE, Status.UNREACHABLE, Status.BUSY)
"""The statuses of failed connections after which the process may still live."""


class Reconnection:
    """Introduces this process to other processes, and reconnects with them."""

    def __init__(
        self,
        me: bytes,
        kind: str,
        peers: Peers,
        outbox: Outbox,
        references: References,
        objects: ObjectTable,
        *,
        clock: Callable[[], float],
        drop: Callable[[Connection], None],
        request_tick: Callable[[], None],
    ) -> None:
        """`drop` ends a connection with the same effects as if the other side had ended it.
        `request_tick` requests a tick.
        """
        self._me = me
        self._kind = kind
        self._peers = peers
        self._outbox = outbox
        self._references = references
        self._objects = objects
        self._clock = clock
        self._drop = drop
        self._request_tick = request_tick
        self._redialling = Redialling(peers.peer, self._is_reached, self._give_up)
        self._ended: set[bytes] = set()
        """Processes whose connection ended while one side may have held objects of the other.

        The next connection to such a process begins with a declaration of the objects that are
        held.
        """
        self._unsure: frozenset[bytes] = frozenset()
        """Borrowers that had not declared the objects that they hold when this was last checked."""
        self._look_at = 0.0

    def __len__(self) -> int:
        """Return how many processes will be dialled again."""
        return len(self._redialling)

    def _is_reached(self, process: bytes) -> bool:
        connection = self._peers.known(process)
        return connection is not None and not connection.is_dialling

    # ---- a connection begins -----------------------------------------------------------------

    def dialled(self, connection: Connection) -> None:
        """Introduce this process over a connection that this process makes."""
        connection.send(self._hello(connection.peer in self._ended))
        self._begin(connection)

    def introduced(self, connection: Connection, message: Hello) -> None:
        """Handle the introduction of a process that has dialled, or its request to declare which of
        its objects are held here.
        """
        process = connection.peer = message.process
        before = self._peers.known(process)
        if message.again:
            self._ended.add(process)
        # A process dials only when it has no connection. So it has seen the end of its earlier
        # connection, which this process has not noticed yet.
        has_ended = message.again or self._peers.was_made_by(process)
        is_other = before is not None and before is not connection and not before.is_dialling
        if before is not None and is_other and has_ended:
            self._drop(before)
        if self._peers.adopt(connection):
            is_unsure = process in self._ended and not message.again
            self._begin(connection)
            if is_unsure:  # the other side does not remember that there was a connection before
                connection.post(self._hello(again=True))

    def _hello(self, again: bool) -> Hello:
        return Hello(PROTOCOL_VERSION, self._me, self._kind, 0, again)

    def _begin(self, connection: Connection) -> None:
        """Begin to use a new connection to a process. First, repeat the messages that were perhaps
        lost with the earlier connection to the same process.
        """
        process = connection.peer
        if process in self._ended:
            self._ended.discard(process)
            self._references.declare_holds(connection)
            self._objects.ask_again(connection)
        for message in self._redialling.unsent(process):
            connection.post(message)
        self._outbox.flush_later(connection)

    # ---- a connection ends -------------------------------------------------------------------

    def ended(self, connection: Connection) -> None:
        """Handle a connection to another process that has ended or could not be made."""
        if self._may_live(connection):
            self._dial_again(connection)
        else:
            self.on_process_death(connection.peer)

    def _may_live(self, connection: Connection) -> bool:
        peers, process = self._peers, connection.peer
        is_gone = peers.is_here(process) or peers.is_on_dead_node(process) or peers.is_closed
        is_refused = connection.is_dialling and connection.refusal_status not in _MAY_PASS
        return not (is_gone or is_refused)

    def _dial_again(self, connection: Connection) -> None:
        """Arrange that a process is dialled again if this process or that process holds objects of
        the other. Otherwise, do nothing: tasks that ran there are retried on other nodes.
        """
        process, now = connection.peer, self._clock()
        may_hold = self._references.lending.connection_lost(process)
        wants = self._references.holds_of(process) or self._objects.wants_of(process)
        unsent = [m for m in connection.unsent() if isinstance(m, CancelOwned)]
        if not (may_hold or wants or unsent):
            return
        self._ended.add(process)
        if connection.is_dialling:
            self._redialling.refused(process, unsent, connection.refusal, now)
        elif wants:
            # Each side may hold objects of the other. The two must not dial at the same time.
            is_first = self._me < process
            self._redialling.ended(process, now + (DIAL_AGAIN_S if is_first else 3 * DIAL_AGAIN_S))
        else:
            self._redialling.ended(process, now + BORROWER_DIALS_S)
        self._request_tick()

    def on_process_death(self, process: bytes) -> None:
        """Handle the death of a process: the objects that it owned are lost, and the objects that
        it borrowed are released.
        """
        self._redialling.forget(process)
        self._ended.discard(process)
        self._give_up(process)

    def _give_up(self, process: bytes, unreached: str = "") -> None:
        self._references.process_gone(process)
        self._objects.process_gone(process, unreached)

    def node_died(self, prefix: bytes) -> None:
        """Handle the death of a node. All connections to its processes must have been dropped."""
        self._redialling.node_died(prefix)
        self._ended = {p for p in self._ended if not p.startswith(prefix)}

    # ---- time --------------------------------------------------------------------------------

    def tick(self, now: float) -> None:
        """Dial again the lost processes whose time for another try has come. Also ask borrowers
        which objects they hold, if they have not declared them yet.
        """
        self._redialling.tick(now)
        if now >= self._look_at:
            self._look_at = now + BORROWER_DIALS_S
            self._ask_unsure_borrowers(now)

    def _ask_unsure_borrowers(self, now: float) -> None:
        """Ask borrowers which objects they hold, if their declaration may have been lost.

        A declaration is lost if both sides dial and one of the two connections ends immediately.
        """
        unsure = frozenset(self._references.lending.unsure())
        for process in sorted(unsure & self._unsure):
            connection = self._peers.known(process)
            if connection is None:
                self._ended.add(process)
                self._redialling.ended(process, now)
            elif not connection.is_dialling:
                self._outbox.post(connection, self._hello(again=True))
        self._unsure = unsure
