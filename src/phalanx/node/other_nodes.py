"""The other nodes as this one sees them: leases borrowed from them, and lent to their processes.

An owner speaks only with its own node. What its node cannot serve it asks of another on the
owner's behalf; grants come back the same way, and the owner then sends its tasks straight to the
other node's workers. Each node keeps one connection to every node that it asks, and reads from
one for every node that asks it; when either ends, both sides forget all that they had from each
other, as they do when the control store declares the other dead.
"""

from __future__ import annotations

import itertools
import os
import threading
from typing import TYPE_CHECKING, Any

from phalanx.engines.embedded import session as sessions
from phalanx.engines.embedded.connection import Connection
from phalanx.model.ids import PREFIX_BYTES, node_process_id
from phalanx.model.lifecycle import DRAINING
from phalanx.node.demands import Demand
from phalanx.protocol.cluster_messages import (
    CopyMade,
    EnvironmentKnown,
    JobKnown,
    NodeDied,
    ProcessEnded,
    Via,
    View,
)
from phalanx.protocol.frames import decode_body, encode_body
from phalanx.protocol.messages import PROTOCOL_VERSION, Hello
from phalanx.protocol.node_messages import (
    OVER,
    Claimed,
    Dropped,
    Granted,
    KillWorker,
    LeaseDue,
    LeaseReturned,
    LeaseWanted,
    LogLine,
    Refused,
    Settled,
    WorkerDied,
)

if TYPE_CHECKING:
    from phalanx.engines.embedded.node.shell import NodeShell

_FROM_AFAR = (LeaseWanted, LeaseReturned, KillWorker, Claimed, Dropped, Settled)
"""What processes of other nodes may ask of this one."""


class RemotePeer:
    """Stands for a process of another node among this node's peers."""

    tag = "remote"

    def __init__(self, others: OtherNodes, process: bytes) -> None:
        self._others = others
        self.peer = process

    def post(self, message: Any) -> None:
        """Let its node pass this on."""
        self._others.send(self.peer[:PREFIX_BYTES], Via(self.peer, encode_body([message])))

    send = post


class OtherNodes:
    """Connections to other nodes and what is borrowed over them."""

    def __init__(self, shell: NodeShell) -> None:
        self._shell = shell
        self._out: dict[bytes, Connection] = {}
        self._in: dict[bytes, Connection] = {}
        self._numbers = itertools.count(1)
        self._borrowed: dict[int, tuple[bytes, Granted, bytes]] = {}
        """Leases of other nodes by the (negative) number under which an owner here has them:
        (node, as it was granted, owner)."""
        self._number_of: dict[tuple[bytes, int], int] = {}
        self._told: dict[bytes, set[bytes]] = {}
        """Jobs and environments that each node knows from us."""
        self._dead: set[bytes] = set()
        self._ids: dict[bytes, str] = {}
        self.version = 0
        """Of the view, as the control store counts."""

    def peer(self, process: bytes) -> RemotePeer:
        """Stands for a process of another node."""
        return RemotePeer(self, process)

    def node_id(self, prefix: str) -> str:
        """The id that begins with these hex digits; empty for a node that is not known."""
        return self._ids.get(bytes.fromhex(prefix), "")

    def view(self, message: View) -> None:
        """The control store says how nodes are."""
        if message.is_whole:  # a head that restarted may not know of all that the last one told
            known = {row.prefix for row in message.rows}
            for prefix in [p for p in self._ids if p not in known]:
                self._cut(prefix, "the head knows nothing of its node", is_dead=True)
                del self._ids[prefix]
        for row in message.rows:
            self._ids[row.prefix] = row.node_id
            if row.prefix != self._shell.prefix:
                self._shell.spilling.put(row)
            elif row.state == DRAINING and not self._shell.leases.is_draining:
                self._shell.leases.drain(self._shell.clock())
        self._shell.member.know_addresses(message.rows)
        self._shell.plan_soon()

    def is_dead(self, prefix: bytes) -> bool:
        """Whether the control store has given this node up."""
        return prefix in self._dead

    # ---- connections -------------------------------------------------------------------------

    def send(self, prefix: bytes, message: Any) -> None:
        """Say something to another node; it is lost with the node."""
        if prefix in self._dead:
            return
        connection = self._out.get(prefix)
        if connection is None:
            connection = self._dial(prefix)
            connection.peer, connection.tag = node_process_id(prefix), "node"
            self._out[prefix] = connection
            me = node_process_id(self._shell.prefix)
            connection.post(Hello(PROTOCOL_VERSION, me, "node", 0))
            self._shell.loop.watch(connection)
        connection.post(message)

    def _dial(self, prefix: bytes) -> Connection:
        from phalanx.engines.embedded.gateway.gate import request_dial

        sock = request_dial(self._shell.session, node_process_id(prefix))
        return Connection(sock, is_dialling=True)

    def introduced(self, connection: Connection, prefix: bytes) -> None:
        """Another node has connected, to ask something of this one."""
        if prefix in self._dead:
            self._shell.loop.lose(connection)
            return
        before = self._in.get(prefix)
        self._in[prefix] = connection
        if before is not None:
            self._shell.loop.forget(before)

    def connection_lost(self, connection: Connection) -> None:
        """A connection to or from another node has ended."""
        prefix = connection.peer[:PREFIX_BYTES]
        if connection in (self._out.get(prefix), self._in.get(prefix)):
            self._cut(prefix, connection.refusal or "the connection to its node was lost")

    def node_died(self, message: NodeDied) -> None:
        """The control store has given a node up."""
        self._dead.add(message.prefix)
        self._cut(message.prefix, message.reason, is_dead=True)
        for peer in self._shell.local_peers():
            peer.post(message)
        self._shell.store.node_gone(message.prefix)
        self._sweep()

    def _sweep(self) -> None:
        """If all processes of a node were killed at once, nobody of its own has deleted its files.
        Beside the loop, as they may be large."""
        root = os.path.dirname(self._shell.session.directory)
        threading.Thread(target=sessions.sweep, args=(root,), daemon=True).start()

    def _cut(self, prefix: bytes, reason: str, is_dead: bool = False) -> None:
        """Forget all that we had from a node, and it from us."""
        for ends in (self._out, self._in):
            connection = ends.pop(prefix, None)
            if connection is not None:
                self._shell.loop.forget(connection)
        self._told.pop(prefix, None)
        for number, (node, granted, owner) in list(self._borrowed.items()):
            if node != prefix:
                continue
            self._forget(number)
            peer = self._shell.peers.get(owner)
            if peer is not None:
                peer.post(WorkerDied(granted.worker, f"its node died: {reason}", "node"))
        now = self._shell.clock()
        for process in [p for p in self._shell.peers if p[:PREFIX_BYTES] == prefix]:
            del self._shell.peers[process]
            self._shell.leases.owner_gone(process, now)
            self._shell.store.process_gone(process)
        if prefix in self._ids:
            forget = self._shell.spilling.remove if is_dead else self._shell.spilling.forget
            forget(self._ids[prefix])
        if is_dead:  # else the next tick asks again: at once, it would dial a dead node in a loop
            self._shell.plan_soon()

    # ---- messages ----------------------------------------------------------------------------

    def on_message(self, connection: Connection, message: Any) -> None:
        """Another node says something."""
        match message:
            case Via(process=process) if process[:PREFIX_BYTES] == self._shell.prefix:
                for inner in decode_body(message.body):
                    self._for_ours(connection.peer[:PREFIX_BYTES], process, inner)
            case Via(process=process) if process[:PREFIX_BYTES] == connection.peer[:PREFIX_BYTES]:
                peer = self._shell.peers.get(process)
                if peer is None:
                    peer = self._shell.peers[process] = RemotePeer(self, process)
                for inner in decode_body(message.body):
                    if isinstance(inner, _FROM_AFAR):
                        self._shell.on_process_message(peer, inner)
            case JobKnown():
                self._shell.jobs.known[message.job] = message
            case EnvironmentKnown():
                self._shell.jobs.environments[message.key] = message.variables
            case ProcessEnded():
                self._process_ended(message)
            case CopyMade():
                self._shell.store.copy_made(message.name, connection.peer[:PREFIX_BYTES])
            case Dropped():
                self._shell.store.copy_dropped(message.name)
            case _:
                self._shell.loop.lose(connection)

    def _process_ended(self, message: ProcessEnded) -> None:
        self._shell.peers.pop(message.process, None)
        self._shell.leases.owner_gone(message.process, self._shell.clock())
        self._shell.store.process_gone(message.process)
        if not message.is_driver:  # else the control store says which objects stay
            self._shell.store.owner_gone(message.process)

    def _for_ours(self, prefix: bytes, process: bytes, message: Any) -> None:
        """What another node says to a process of this one."""
        peer = self._shell.peers.get(process)
        match message:
            case Granted():
                wanted = self._shell.leases.waiting
                if peer is None or not wanted.is_known(process, message.scheduling_class):
                    # It was on its way when the class was over, or its owner ended.
                    self._tell(prefix, process, LeaseReturned(message.lease))
                    self._tell(prefix, process, LeaseWanted(message.scheduling_class, {}, OVER))
                    return
                number = -next(self._numbers)
                self._borrowed[number] = (prefix, message, process)
                self._number_of[prefix, message.lease] = number
                self._shell.spilling.granted(self._ids[prefix], process, message.scheduling_class)
                wanted.granted_elsewhere(process, message.scheduling_class)
                peer.post(
                    Granted(
                        message.scheduling_class,
                        number,
                        message.worker,
                        message.resources,
                        message.devices,
                        message.gang,
                    )
                )
            case LeaseDue():
                due = self._number_of.get((prefix, message.lease))
                if due is not None and peer is not None:
                    peer.post(LeaseDue(due))
            case Refused():
                self._shell.plan_soon()
            case WorkerDied():
                for number, (node, granted, _) in list(self._borrowed.items()):
                    if node == prefix and granted.worker == message.worker:
                        self._forget(number)
                if peer is not None:
                    peer.post(message)
            case LogLine() if peer is not None:
                peer.post(message)

    def _tell(self, prefix: bytes, process: bytes, message: Any) -> None:
        self.send(prefix, Via(process, encode_body([message])))

    # ---- what this node's owners have of others ----------------------------------------------

    def ask(self, prefix: bytes, demand: Demand, count: int, seen: int) -> None:
        """Tell a node how many workers a demand of ours would use there."""
        told = self._told.setdefault(prefix, set())
        known = self._shell.jobs.known.get(demand.job)
        if known is not None and demand.job not in told:
            told.add(demand.job)
            self.send(prefix, known)
        key = demand.environment
        if key and key not in told:
            told.add(key)
            self.send(prefix, EnvironmentKnown(key, self._shell.jobs.environments.get(key, {})))
        strategy = {}
        if demand.group is not None:
            strategy = {"group": demand.group[0].hex(), "bundle": demand.group[1]}
        wanted = LeaseWanted(
            demand.scheduling_class,
            demand.place.to_mapping(),
            count,
            key,
            strategy,
            demand.priority,
            demand.queue,
            seen,
        )
        self._tell(prefix, demand.owner, wanted)

    def withdraw(self, prefix: bytes, owner: bytes, scheduling_class: int, is_over: bool) -> None:
        """Tell a node that a demand of ours is met or gone, or its class over."""
        if prefix in self._out:
            count = OVER if is_over else 0
            self._tell(prefix, owner, LeaseWanted(scheduling_class, {}, count))

    def returned(self, message: LeaseReturned, owner: bytes) -> None:
        """An owner gives a borrowed lease back."""
        entry = self._borrowed.get(message.lease)
        if entry is not None:
            self._forget(message.lease)
            self._tell(entry[0], owner, LeaseReturned(entry[1].lease, message.reusable))

    def kill(self, message: KillWorker, owner: bytes) -> None:
        """An owner ends a borrowed worker."""
        entry = self._borrowed.get(message.lease)
        if entry is not None and entry[2] == owner:
            self._tell(entry[0], owner, KillWorker(entry[1].lease))

    def _forget(self, number: int) -> None:
        prefix, granted, _ = self._borrowed.pop(number)
        del self._number_of[prefix, granted.lease]

    def process_gone(self, process: bytes, is_driver: bool) -> None:
        """A process of this node ended: every node that may know it learns that."""
        for number, (_, _, owner) in list(self._borrowed.items()):
            if owner == process:
                self._forget(number)
        for prefix in list(self._out):
            self.send(prefix, ProcessEnded(process, is_driver))

    def pass_on(self, name_or_process: bytes, process: bytes, message: Any) -> bool:
        """Send to the node that these bytes begin with, if it is another; whether it is."""
        prefix = name_or_process[:PREFIX_BYTES]
        if prefix == self._shell.prefix or len(prefix) < PREFIX_BYTES:
            return False
        self._tell(prefix, process, message)
        return True
