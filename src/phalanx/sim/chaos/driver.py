"""A simulated driver: the production machines of an owner, and what the runtime does around them.

Mirrors `embedded.client.runtime`: who is connected, who is known to be dead, which news go where.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from phalanx.model.ids import PREFIX_BYTES, node_process_id
from phalanx.protocol.cluster_messages import NodeDied
from phalanx.protocol.messages import PROTOCOL_VERSION, Done, Failed, Hello, Leaving, Returned
from phalanx.protocol.node_messages import (
    ActorUpdate,
    Ask,
    Granted,
    LeaseDue,
    Refused,
    Reply,
    Stop,
    WorkerDied,
)
from phalanx.protocol.requests.node import Introduction, RegisterDriver
from phalanx.protocol.requests.request import Request, encode_request, read_result
from phalanx.sim.chaos.calls import SimCalls
from phalanx.sim.chaos.submission import SimSubmission

if TYPE_CHECKING:
    from phalanx.sim.chaos.network import End, Message
    from phalanx.sim.chaos.node import SimNode

_TICK_S = 0.05
R = TypeVar("R")


class SimDriver:
    """One driver's process on a node."""

    def __init__(self, node: SimNode, name: str) -> None:
        self.node = node
        self.world = node.world
        self.host = node.host
        self.name = name
        self.process_id = b""
        self.is_alive = True
        self.sequence = itertools.count(1)
        self.tasks = SimSubmission(self)
        self.calls = SimCalls(self)
        self.on_ready: Callable[[], None] = lambda: None
        self._tokens = itertools.count(1)
        self._replies: dict[int, Callable[[Reply], None]] = {}
        self._peers: dict[bytes, End] = {}
        self._dead: set[bytes] = set()
        self._dead_nodes: set[bytes] = set()
        to = node_process_id(node.prefix)
        self.node_end = self.world.network.dial(self.host, self, self.host, to)
        request = RegisterDriver(path=[], directory="", namespace=name, log_to_driver=False)
        self.ask(request, self._registered)
        self.host.every(_TICK_S, self._tick)

    def _registered(self, answer: Callable[[], Introduction]) -> None:
        self.process_id = answer().process
        self.host.processes[self.process_id] = self
        self.on_ready()

    def die(self, how: str) -> None:
        """The process ends."""
        if not self.is_alive:
            return
        self.is_alive = False
        self.world.kernel.tell(self.name, f"ends: {how}")
        self.host.processes.pop(self.process_id, None)
        self.world.promises.driver_ended(self)
        self.world.network.process_gone(self.host, self)

    def leave(self) -> None:
        """The program has ended: it says goodbye."""
        self.node_end.post(Stop("the program ended"))
        self.die("the program ended")

    # ---- the node ----------------------------------------------------------------------------

    def ask(self, request: Request[R], answered: Callable[[Callable[[], R]], None]) -> None:
        """Ask the node, or through it the control store."""

        def replied(reply: Reply) -> None:
            answered(partial(read_result, request, reply.result, reply.error))

        token = next(self._tokens)
        self._replies[token] = replied
        self.node_end.post(Ask(token, request.kind, encode_request(request)))

    def notify(self, request: Request[Any]) -> None:
        """Ask without waiting for an answer."""
        self.node_end.post(Ask(0, request.kind, encode_request(request)))

    # ---- peers -------------------------------------------------------------------------------

    def peer(self, process: bytes) -> End | None:
        """The connection to a process, made when there is none; None when it is gone."""
        found = self._peers.get(process)
        if found is not None:
            return found
        prefix = process[:PREFIX_BYTES]
        if process in self._dead or prefix in self._dead_nodes:
            return None
        to = self.world.host_of(prefix)
        end = self.world.network.dial(self.host, self, to, process)
        end.peer = process
        self._peers[process] = end
        end.post(Hello(PROTOCOL_VERSION, self.process_id, "driver", 0))
        return end

    def known_peer(self, process: bytes) -> End | None:
        """The connection to a process if there is one."""
        return self._peers.get(process)

    def post(self, end: End, message: Message) -> None:
        """Send after everything posted before."""
        end.post(message)

    def is_here(self, process: bytes) -> bool:
        """Whether a process is of this node: then the end of its connection is its own end."""
        return process[:PREFIX_BYTES] == self.node.prefix

    def _lost(self, end: End) -> None:
        if self._peers.get(end.peer) is not end:
            return
        del self._peers[end.peer]
        if self.is_here(end.peer):
            self._dead.add(end.peer)
        self.tasks.workers.connection_ended(end)
        self.calls.clients.connection_ended(end)

    def _node_died(self, prefix: bytes) -> None:
        self._dead_nodes.add(prefix)
        for peer, end in list(self._peers.items()):
            if peer[:PREFIX_BYTES] == prefix:
                end.close()
                self._lost(end)

    # ---- events ------------------------------------------------------------------------------

    def _tick(self) -> None:
        if self.is_alive:
            self.world.guard(self.host, self._work)

    def _work(self) -> None:
        now = self.host.clock()
        self.tasks.machine.tick(now)
        self.calls.clients.tick(now)
        self.tasks.gangs.tick(now)
        self.tasks.machine.pump_dirty()

    def on_end(self, end: End) -> None:
        """See Process."""
        if end is self.node_end:
            self.die("its node is gone")
        else:
            self._lost(end)
            self.tasks.machine.pump_dirty()

    def on_message(self, end: End, message: Message) -> None:  # noqa: PLR0912
        """See Process."""
        if not self.is_alive:
            return
        now = self.host.clock()
        match message:
            case Done():
                if not self.calls.done(end, message):
                    self.tasks.done(end, message, now)
            case Failed():
                if not self.calls.failed(end, message):
                    self.tasks.failed(end, message, now)
            case Returned():
                self.tasks.workers.returned(end, message.numbers)
            case Leaving():
                self.tasks.workers.leaving(end)
            case Granted():
                self.tasks.granted(message, now)
            case Refused():
                self.tasks.refused(message)
            case LeaseDue():
                self.tasks.machine.lease_due(message.lease)
            case WorkerDied():
                self.tasks.workers.worker_died(message)
            case NodeDied():
                self._node_died(message.prefix)
            case ActorUpdate():
                self.calls.clients.updated(message)
            case Reply():
                replied = self._replies.pop(message.token, None)
                if replied is not None:
                    replied(message)
        self.tasks.machine.pump_dirty()
