"""A simulated worker process: runs what owners send, one after another, or is one actor."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

import msgspec

from phalanx.model.ids import node_process_id
from phalanx.protocol.messages import (
    PROTOCOL_VERSION,
    Call,
    Done,
    Failed,
    Hello,
    Lease,
    Recall,
    Returned,
    Task,
    Unlease,
)
from phalanx.protocol.node_messages import ActorReady, CreateActor, JobSetup, Stop, Terminate

if TYPE_CHECKING:
    from phalanx.sim.chaos.network import End, Message
    from phalanx.sim.chaos.node import SimNode

CONSTRUCT_S = 0.01


class Work(msgspec.Struct, array_like=True):
    """What a simulated task or call does, as its arguments say: it takes so long, then returns,
    raises, or takes its process along."""

    seconds: float
    ends: str = "returns"


class SimWorker:
    """One worker process, from its fork to its end."""

    def __init__(self, node: SimNode, worker_id: bytes) -> None:
        self.node = node
        self.worker_id = worker_id
        self.host = node.host
        self.name = f"{node.name}/w{int.from_bytes(worker_id[6:12], 'big')}"
        self.is_alive = True
        self.actor: CreateActor | None = None
        self.is_constructed = False
        self._promises = node.world.promises
        self._node_end: End | None = None
        self._is_set_up = False
        self._leases: dict[End, Lease] = {}
        self._queue: deque[tuple[End, Task | Call]] = deque()
        self._running: tuple[End, Task | Call] | None = None
        self._stopping = ""

    def begin(self) -> None:
        """The process runs: it introduces itself to its node."""
        if not self.is_alive:
            return
        network = self.node.world.network
        self.host.processes[self.worker_id] = self
        to = node_process_id(self.node.prefix)
        self._node_end = network.dial(self.host, self, self.host, to)
        self._node_end.post(Hello(PROTOCOL_VERSION, self.worker_id, "worker", 1))

    def die(self, how: str) -> None:
        """The process ends at once."""
        if not self.is_alive:
            return
        self.is_alive = False
        self.node.world.kernel.tell(self.name, f"ends: {how}")
        self.host.processes.pop(self.worker_id, None)
        self._promises.worker_ended(self)
        end = self._node_end
        self.node.world.network.process_gone(self.host, self)
        self.node.processes.died(self, how, end.next_at if end is not None else 0.0)

    # ---- messages ----------------------------------------------------------------------------

    def on_message(self, end: End, message: Message) -> None:
        """See Process."""
        if not self.is_alive:
            return
        match message:
            case Hello():
                end.peer = message.process
            case Lease():
                self._leases[end] = message
            case Unlease():
                self._leases.pop(end, None)
            case Task() | Call():
                self._queue.append((end, message))
            case Recall():
                self._return_queued()
            case CreateActor():
                self._become(message)
            case JobSetup():
                self._is_set_up = True
            case Terminate() | Stop():
                self._stopping = "told to stop"
        self._go_on()

    def on_end(self, end: End) -> None:
        """See Process."""
        if end is self._node_end:
            self.die("its node is gone")
            return
        self._leases.pop(end, None)
        self._queue = deque(entry for entry in self._queue if entry[0] is not end)

    def _return_queued(self) -> None:
        back: dict[End, list[int]] = {}
        for end, work in self._queue:
            back.setdefault(end, []).append(work.number)
        self._queue.clear()
        for end, numbers in back.items():
            end.post(Returned(numbers))

    # ---- work --------------------------------------------------------------------------------

    def _go_on(self) -> None:
        if not self.is_alive or self._running is not None or not self._is_set_up:
            return
        if self._stopping and (self.actor is None or not self._queue):
            self._return_queued()
            self.die(self._stopping)
            return
        if self._queue and (self.actor is None or self.is_constructed):
            self._run(*self._queue.popleft())

    def _run(self, end: End, work: Task | Call) -> None:
        self._running = (end, work)
        wanted = msgspec.msgpack.decode(_bytes(work.args), type=Work)
        if isinstance(work, Task):
            self._promises.task_started(self, end.peer, work, self._leases.get(end))
        else:
            self._promises.call_started(self, end.peer, work)
        self._later(wanted.seconds, lambda: self._finish(end, work, wanted))

    def _finish(self, end: End, work: Task | Call, wanted: Work) -> None:
        if wanted.ends == "dies":
            self.die("exit code 1")
            return
        self._running = None
        if isinstance(work, Task):
            self._promises.task_ended(self)
        if wanted.ends == "raises":
            end.post(Failed(work.number, b"raised", 0.0, wanted.seconds))
        else:
            end.post(Done(work.number, self.worker_id, 0.0, wanted.seconds))
        self._go_on()

    def _become(self, order: CreateActor) -> None:
        self.actor = order
        self._promises.actor_begun(self, order)
        self._later(CONSTRUCT_S, self._constructed)

    def _constructed(self) -> None:
        assert self.actor is not None
        assert self._node_end is not None
        self.is_constructed = True
        self._node_end.post(ActorReady(self.actor.actor))
        self._go_on()

    def _later(self, seconds: float, action: Any) -> None:
        def alive() -> None:
            if self.is_alive:
                self.node.world.guard(self.host, action)

        self.host.later(seconds * self.host.slowness, alive)


def _bytes(payload: Any) -> bytes:
    assert isinstance(payload, bytes)
    return payload
