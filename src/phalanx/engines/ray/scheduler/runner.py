"""The agent of one Ray node: a detached actor that keeps its devices and runs members of jobs.

It lives on leases. Each report that the scheduler has taken in allows it to run things for
`ttl_s` from when the report was sent; without one it ends itself, and all that it runs ends with
it. So the scheduler may give its work to others when it has heard nothing for longer than that.
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

from phalanx.engines.ray.scheduler.loop import Loop
from phalanx.engines.ray.scheduler.node_shell import RayNodeShell
from phalanx.engines.ray.scheduler.options import NAMESPACE, SCHEDULER, SchedulerOptions
from phalanx.protocol.cluster_messages import Acked, Expelled, ForwardedReply, Join, Joined
from phalanx.protocol.frames import decode_body, encode_body

JOINS_WITHIN_S = 60.0


class RunnerSetup(msgspec.Struct, frozen=True, kw_only=True):
    """What a Runner is started with."""

    ray_node: str
    node_id: str
    """Under which it joins: Ray's, unless that one was given up before."""
    host: str
    totals: dict[str, float]
    labels: dict[str, str]
    options: SchedulerOptions


class _Outbox:
    """Stands for the connection to the control store: what is posted leaves with the round."""

    def __init__(self) -> None:
        self.messages: list[Any] = []

    def post(self, message: Any) -> None:
        self.messages.append(message)


class Runner:
    """The actor. Its loop has a thread of its own; Ray's calls only hand things over."""

    def __init__(self, setup: bytes) -> None:
        os.umask(0o077)
        self._setup = msgspec.msgpack.decode(setup, type=RunnerSetup)
        self._options = self._setup.options
        self._me = ray.get_runtime_context().current_actor
        self._scheduler = ray.get_actor(SCHEDULER, namespace=NAMESPACE)
        self._loop = Loop("phalanx-runner", self._tick, self._round)
        self._shell: RayNodeShell
        self._outbox = _Outbox()
        self._scheduler_epoch = 0
        self._node_epoch = 0
        self._report_at = 0.0
        # Before it has joined it runs nothing: it may take its time where the machine is busy.
        self._may_run_until = time.monotonic() + JOINS_WITHIN_S
        self._loop.start(self._begin)
        threading.Thread(target=self._watch, name="phalanx-lease", daemon=True).start()

    def receive(self, epoch: int, body: bytes) -> None:
        """Messages of the scheduler."""
        self._loop.call(lambda: self._received(epoch, body))

    def adopt(self, group: bytes, index: int, pid: int) -> None:
        """A process of Ray's runs as a member of a gang of tasks on this node."""
        self._loop.call(lambda: self._shell.leases.adopt((group, index), pid))

    def left(self, pid: int) -> None:
        """A member has ended, and its process is about to."""
        self._loop.call(lambda: self._shell.leases.left(pid))

    def pid(self) -> int:
        """Of the Runner's process."""
        return os.getpid()

    # ---- the loop's thread -------------------------------------------------------------------

    def _begin(self) -> None:
        setup = self._setup
        self._shell = RayNodeShell(
            setup.node_id, setup.totals, setup.labels, self._options, self._report_soon
        )
        self._loop.read_from(self._shell.children.fileno, self._from_children)
        self._join()

    def _from_children(self) -> None:
        if not self._shell.on_children():
            self._end("the process that starts commands has ended")

    def _report_soon(self) -> None:
        self._report_at = 0.0

    def _tick(self, now: float) -> None:
        self._shell.tick(now)

    def _round(self) -> None:
        self._shell.groups.settle()
        self._shell.children.flush()
        now = time.monotonic()
        if now >= self._report_at:
            self._report_at = now + self._options.heartbeat_s
            if self._shell.control.connection is None:
                self._join()
            else:
                self._shell.control.report(self._shell.report())
        if self._outbox.messages:
            messages, self._outbox.messages = self._outbox.messages, []
            self._say(messages, None)

    def _join(self) -> None:
        row = self._shell.row(self._setup.host)
        inventory = self._shell.bundles.inventory()
        join = Join(row, socket.gethostname(), self._node_epoch, {}, inventory)
        self._say([join], self._me)

    def _say(self, messages: list[Any], me: Any) -> None:
        sent = time.monotonic()
        call = self._scheduler.told.remote(self._shell.prefix, encode_body(messages), me)

        def heard(future: Any) -> None:
            self._loop.call(lambda: self._heard(sent, future))

        call.future().add_done_callback(heard)

    def _heard(self, sent: float, future: Any) -> None:
        """The scheduler has taken in what was sent then, or is not there."""
        try:
            _, is_joined = future.result()
        except Exception:
            self._apart()
            self._find_scheduler()
            return
        if is_joined:
            self._may_run_until = sent + self._options.ttl_s
        else:
            self._apart()

    def _apart(self) -> None:
        """The scheduler does not know this node now: it joins again with the next report."""
        self._shell.control.connection = None

    def _find_scheduler(self) -> None:
        try:
            self._scheduler = ray.get_actor(SCHEDULER, namespace=NAMESPACE)
        except Exception:
            return  # there is none now; the lease says how long that may be so

    def _received(self, epoch: int, body: bytes) -> None:
        if epoch < self._scheduler_epoch:
            return  # an earlier scheduler's last words
        self._scheduler_epoch = epoch
        for message in decode_body(body):
            match message:
                case Acked():
                    self._shell.control.acked(message)
                case Joined():
                    self._joined(message)
                case Expelled():
                    self._end(message.reason)
                case ForwardedReply():
                    self._shell.control.replied(message)
                case _:
                    self._shell.on_control(message)

    def _joined(self, message: Joined) -> None:
        self._node_epoch = message.epoch
        connection: Any = self._outbox
        self._shell.control.connected(connection)
        self._shell.groups.joined()

    def _end(self, reason: str) -> None:
        print(f"phalanx: this node's Runner ends: {reason}", file=sys.stderr, flush=True)
        self._shell.end()
        os._exit(1)

    # ---- the lease ---------------------------------------------------------------------------

    def _watch(self) -> None:
        """In a thread of its own, so that nothing the loop does can hold it up."""
        while (left_s := self._may_run_until - time.monotonic()) > 0:
            time.sleep(min(left_s, 0.2))
        self._end(f"no scheduler was heard for {self._options.ttl_s:g} s")
