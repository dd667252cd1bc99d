"""The agent of one Ray node: a detached actor that keeps its devices and runs members of jobs.

It lives on a lease. Each batch of messages that the scheduler has taken in allows it to run things
for `ttl_s` from the moment at which that batch was sent. Without such a word it ends itself, and
all that it runs ends with it. So the scheduler may give its work to others when it has heard
nothing for longer than that.

A scheduler that Ray starts again waits for the nodes that it knows twice as long. So where Ray says
that it does, the lease is twice as long, too: the one that took in the last batch has ended before
it could give this node up, and the next one began after that batch was sent.
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
from phalanx.protocol.cluster_messages import Expelled, Joined
from phalanx.protocol.frames import decode_body, encode_body
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
    """What a node agent is started with."""

    ray_node: str
    """The id by which Ray knows its node."""
    node_id: str
    """The id under which it joins: Ray's, unless that one was given up before."""
    host: str
    totals: dict[str, float]
    labels: dict[str, str]
    options: SchedulerOptions


class SchedulerPeer:
    """See Peer: the messages to the scheduler, which leave with the round."""

    peer = b""
    tag: Any = None

    def __init__(self) -> None:
        self._messages: list[Any] = []

    def post(self, message: Any) -> None:
        """See Peer."""
        self._messages.append(message)

    send = post

    def take(self) -> list[Any]:
        """All that was posted since this was last called."""
        messages, self._messages = self._messages, []
        return messages


class NodeAgent:
    """The actor. Its loop has a thread of its own; Ray's calls only hand things over."""

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
        """Whether Ray started the scheduler again since it took in what gave the lease."""
        # Before it has joined it runs nothing: it may take its time where the machine is busy.
        self._may_run_until = time.monotonic() + JOINS_WITHIN_S
        self._loop.read_from(self._forks.connection.fileno, self._from_command_server)
        self._loop.start_thread("phalanx-node-agent", self._join)
        threading.Thread(target=self._watch, name="phalanx-lease", daemon=True).start()

    def receive(self, epoch: int, body: bytes) -> None:
        """Messages of the scheduler."""
        self._loop.call(lambda: self._received(epoch, body))

    def adopt(self, group: bytes, index: int, pid: int) -> None:
        """A process of Ray's runs as a member of a gang of tasks on this node."""
        self._loop.call(lambda: self._machines.workers.adopt((group, index), pid))

    def left(self, pid: int) -> None:
        """A member has ended, and its process is about to."""
        self._loop.call(lambda: self._machines.workers.left(pid))

    def pid(self) -> int:
        """Of the agent's process."""
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
        self._forks.connection.drain()  # what the other side did not take before
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
        sent = time.monotonic()  # not the own time: a lease runs out while this does not run, too
        call = self._scheduler.from_node.remote(self._machines.prefix, encode_body(messages), me)
        call.future().add_done_callback(
            lambda future: self._loop.call(lambda: self._answered(sent, future))
        )

    def _answered(self, sent: float, future: Any) -> None:
        """The scheduler has taken in what was sent at `sent`, or is not there."""
        try:
            is_joined = future.result()
        except Exception:  # whatever Ray raises for an actor that it cannot reach
            is_joined = False
            self._find_scheduler()
        if is_joined:
            self._is_restarting = False
            self._may_run_until = sent + self._options.ttl_s
        else:  # it does not know this node: join again
            self._machines.control.disconnected()

    def _find_scheduler(self) -> None:
        try:
            self._scheduler = ray.get_actor(SCHEDULER, namespace=NAMESPACE)
        except Exception:
            return  # there is none now; the lease says how long that may be so

    def _received(self, epoch: int, body: bytes) -> None:
        if epoch < self._scheduler_epoch:
            return  # the last words of an earlier scheduler
        self._scheduler_epoch = epoch
        for message in decode_body(body):
            self._machines.from_scheduler.handle(message)

    def _joined(self, message: Joined) -> None:
        self._node_epoch = message.epoch
        self._machines.joined(self._peer)

    def _end(self, reason: str) -> None:
        """End all that runs here, and this process."""
        print(f"phalanx: this node's agent ends: {reason}", file=sys.stderr, flush=True)
        self._forks.connection.close()
        sessions.remove(self._session)
        os._exit(1)

    # ---- the lease ---------------------------------------------------------------------------

    def _watch(self) -> None:
        """In a thread of its own, so that nothing the loop does can hold it up."""
        while (left_s := self._runs_until() - time.monotonic()) > 0:
            time.sleep(min(left_s, LOOKS_AT_LEASE_EVERY_S))
            self._is_restarting = self._is_restarting or is_restarting(self._scheduler)
        self._end(f"the scheduler was not heard for {self._options.ttl_s:g} s")

    def _runs_until(self) -> float:
        return self._may_run_until + (self._options.ttl_s if self._is_restarting else 0.0)


def _wiring(totals: dict[str, float], declared: str) -> Topology | None:
    """How this node's devices are wired, as declared or found; None when that is not known, or is
    of fewer devices than Ray has here."""
    count = totals.get("GPU", 0)
    if not count:
        return None
    wiring = read_topology(declared or "detect")
    return wiring if wiring is not None and len(wiring.numa) >= count else None
