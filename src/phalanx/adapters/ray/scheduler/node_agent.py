"""The agent of one Ray node: a detached actor that keeps the node's devices and runs members of
jobs. The agent has a lease. Each batch of messages that the scheduler accepts renews the lease for
`ttl_s` seconds, from the moment at which the batch was sent. If the lease runs out, the agent ends
all work that it runs, and then itself. Therefore the scheduler may give the agent's work to other
nodes after a longer time without messages. A scheduler that Ray restarts waits twice as long for
the nodes that it knows. So while Ray reports that the scheduler is restarting, the lease is twice
as long, too. This is safe for two reasons. The scheduler that accepted the last batch ended before
it could declare this node dead. The next scheduler began after the batch was sent.
"""

from __future__ import annotations

import os
import socket
import sys
import threading
import time
from typing import Any

import msgspec
import ray

from phalanx.adapters.ray.scheduler.command_server import start_command_server
from phalanx.adapters.ray.scheduler.node_machines import NodeMachines
from phalanx.adapters.ray.scheduler.options import NAMESPACE, SCHEDULER, SchedulerOptions
from phalanx.adapters.ray.scheduler.ray_calls import is_restarting
from phalanx.model.ids import GroupId
from phalanx.model.principals import NOBODY
from phalanx.protocol.frames import decode_body, encode_body
from phalanx.protocol.membership_messages import Expelled, Joined
from phalanx.runtime.os import session as sessions
from phalanx.runtime.os.declared_topology import read_topology
from phalanx.runtime.os.file_modes import keep_private
from phalanx.runtime.os.fork_client import ForkClient
from phalanx.runtime.os.loop import Loop
from phalanx.runtime.os.own_time import own_time
from phalanx.scheduler.devices.instances import NodeResources
from phalanx.scheduler.devices.topology import Topology

JOINS_WITHIN_S = 60.0
LOOKS_AT_LEASE_EVERY_S = 0.2


class AgentSetup(msgspec.Struct, frozen=True, kw_only=True):
    """The settings with which the scheduler starts a node agent."""

    ray_node: str
    """Ray's id of the node."""
    node_id: str
    """The id with which the agent joins. It is Ray's id, unless a node with that id was declared
    dead before.
    """
    host: str
    totals: dict[str, float]
    labels: dict[str, str]
    options: SchedulerOptions


class SchedulerPeer:
    """The scheduler as a Peer of the agent. Messages to it are collected, and sent at the end of a
    round.
    """

    peer = b""
    tag: Any = None
    principal = NOBODY

    def __init__(self) -> None:
        self._messages: list[Any] = []

    def post(self, message: Any) -> None:
        """Queue a message."""
        self._messages.append(message)

    send = post

    def take(self) -> list[Any]:
        """Return all messages posted since the last call."""
        messages, self._messages = self._messages, []
        return messages


class NodeAgent:
    """The agent's actor.

    The agent's loop has a thread of its own. Ray's calls only pass messages on to that thread.
    """

    def __init__(self, setup: bytes) -> None:
        keep_private()
        self._setup = msgspec.msgpack.decode(setup, type=AgentSetup)
        self._options = self._setup.options
        self._me = ray.get_runtime_context().current_actor
        self._scheduler = ray.get_actor(SCHEDULER, namespace=NAMESPACE)
        self._peer = SchedulerPeer()
        self._session = sessions.create()
        self._server = start_command_server(self._session)
        self._forks = ForkClient(self._server.socket, self._server.process.pid)
        totals = self._setup.totals
        self._machines = NodeMachines(
            self._setup.node_id,
            NodeResources(totals, topology=_wiring(totals, self._options.topology)),
            self._setup.labels,
            self._forks,
            self._session.disk,
            self._options.heartbeat_s,
        )
        self._machines.from_scheduler.on(Joined, self._joined)
        self._machines.from_scheduler.on(Expelled, lambda message: self._end(message.reason))
        self._loop = Loop(self._tick, self._round)
        self._scheduler_epoch = 0
        self._node_epoch = 0
        self._join_at = 0.0
        self._is_restarting = False
        """Whether Ray has restarted the scheduler since the batch that renewed the lease was sent.
        """
        # The agent runs nothing before it has joined, so a busy machine may delay the first lease.
        self._may_run_until = time.monotonic() + JOINS_WITHIN_S
        self._loop.read_from(self._forks.connection.fileno, self._from_command_server)
        self._loop.start_thread("phalanx-node-agent", self._join)
        threading.Thread(target=self._watch, name="phalanx-lease", daemon=True).start()

    def receive(self, epoch: int, body: bytes) -> None:
        """Handle messages of the scheduler."""
        self._loop.call(lambda: self._received(epoch, body))

    def adopt(self, group: GroupId, index: int, pid: int) -> None:
        """Register a process of Ray that is a member of a gang of tasks on this node."""
        self._loop.call(lambda: self._machines.workers.adopt((group, index), pid))

    def left(self, pid: int) -> None:
        """Note that a member has ended and its process is about to exit."""
        self._loop.call(lambda: self._machines.workers.left(pid))

    def pid(self) -> int:
        """Return the id of the agent's process."""
        return os.getpid()

    # ---- the loop's thread -------------------------------------------------------------------

    def _from_command_server(self) -> None:
        messages = self._forks.connection.receive()
        if messages is None:
            self._end("the process that starts commands has ended")
            return
        for message in messages:
            self._machines.from_fork_server(message)

    def _tick(self, now: float) -> None:
        self._machines.on_tick(now)
        if not self._machines.control.is_connected and now >= self._join_at:
            self._join()

    def _round(self) -> None:
        self._machines.on_round()
        self._forks.connection.drain()  # data that the other side did not accept before
        self._forks.connection.flush()
        messages = self._peer.take()
        if messages:
            self._send(messages, None)

    # ---- the scheduler -----------------------------------------------------------------------

    def _join(self) -> None:
        self._join_at = own_time() + self._options.heartbeat_s
        join = self._machines.join(self._setup.host, socket.gethostname(), self._node_epoch)
        self._send([join], self._me)

    def _send(self, messages: list[Any], me: Any) -> None:
        # not `own_time`: a lease also runs out while this process is stopped
        sent = time.monotonic()
        call = self._scheduler.from_node.remote(self._machines.prefix, encode_body(messages), me)
        call.future().add_done_callback(
            lambda future: self._loop.call(lambda: self._answered(sent, future))
        )

    def _answered(self, sent: float, future: Any) -> None:
        """Renew the lease if the scheduler has accepted the batch that was sent at `sent`. If the
        call failed, look for the scheduler that now runs. If the batch was not accepted, join
        again.
        """
        try:
            is_joined = future.result()
        except Exception:  # whatever Ray raises for an actor that it cannot reach
            is_joined = False
            self._find_scheduler()
        if is_joined:
            self._is_restarting = False
            self._may_run_until = sent + self._options.ttl_s
        else:  # the scheduler does not know this node: join again
            self._machines.control.disconnected()

    def _find_scheduler(self) -> None:
        try:
            self._scheduler = ray.get_actor(SCHEDULER, namespace=NAMESPACE)
        except Exception:
            return  # no scheduler runs now; the lease limits how long that may last

    def _received(self, epoch: int, body: bytes) -> None:
        if epoch < self._scheduler_epoch:
            return  # the last messages of an earlier scheduler
        self._scheduler_epoch = epoch
        for message in decode_body(body):
            self._machines.from_scheduler.handle(message)

    def _joined(self, message: Joined) -> None:
        self._node_epoch = message.epoch
        self._machines.joined(self._peer)

    def _end(self, reason: str) -> None:
        """End all work that the agent runs, and then this process."""
        print(f"phalanx: this node's agent ends: {reason}", file=sys.stderr, flush=True)
        self._forks.connection.close()
        sessions.remove(self._session)
        os._exit(1)

    # ---- the lease ---------------------------------------------------------------------------

    def _watch(self) -> None:
        """End the process when the lease runs out. Runs in a separate thread, so that the loop
        cannot delay it.
        """
        while (left_s := self._runs_until() - time.monotonic()) > 0:
            time.sleep(min(left_s, LOOKS_AT_LEASE_EVERY_S))
            self._is_restarting = self._is_restarting or is_restarting(self._scheduler)
        self._end(f"no message from the scheduler for {self._options.ttl_s:g} s")

    def _runs_until(self) -> float:
        return self._may_run_until + (self._options.ttl_s if self._is_restarting else 0.0)


def _wiring(totals: dict[str, float], declared: str) -> Topology | None:
    """Return the wiring of this node's devices: the declared wiring or else the wiring that the
    node detects. Returns None if the wiring is unknown, or if it has fewer devices than Ray has on
    this node.
    """
    count = totals.get("GPU", 0)
    if not count:
        return None
    wiring = read_topology(declared or "detect")
    return wiring if wiring is not None and len(wiring.numa) >= count else None
