"""The simulated network. Its connections are like TCP's: bytes arrive in order, late, or never. A
message is encoded when it is posted and decoded when it arrives. So processes share no objects, and
the digest of a run is computed from real bytes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

from phalanx.model.ids import PREFIX_BYTES
from phalanx.model.principals import UNIX, Principal
from phalanx.protocol.frames import decode_body, encode_body
from phalanx.protocol.handshake import Status
from phalanx_research.chaos.hosts import Host
from phalanx_research.chaos.kernel import Kernel
from phalanx_research.chaos.options import NetworkOptions

Message = Any
Pair = tuple[str, str]
LOCAL_S = 0.0002
REFUSED_S = 0.001


class Process(Protocol):
    """A process on a host that handles its connections."""

    name: str
    """The name for display."""

    def on_message(self, end: End, message: Message) -> None:
        """Handle a message over this connection."""
        ...

    def on_end(self, end: End) -> None:
        """Handle the end of this connection."""
        ...


class End:
    """One end of a connection, in place of `owner.transport.Connection`."""

    def __init__(self, network: Network, host: Host, number: int) -> None:
        self._network = network
        self.host = host
        self.number = number
        self.process: Process | None = None
        self.peer = b""
        self.tag = ""
        self.principal = Principal(UNIX, "somebody", "somebody", is_owner=True)
        self.origin = "the simulated machine"
        self.refusal = ""
        self.refusal_status = 0
        self.is_open = True
        self.is_dialling = False
        self.other: End = self
        self.queue: deque[tuple[float, bytes | None]] = deque()
        """Messages on their way to the other end, with their times of arrival. None instead of a
        message means that this end was closed.
        """
        self.next_at = 0.0
        self.on_post: Callable[[Message], None] | None = None
        """A callback that sees every posted message."""
        self._unsent: list[Message] = []

    def post(self, message: Message) -> None:
        """Send a message after all earlier messages."""
        if self.on_post is not None:
            self.on_post(message)
        if self.is_dialling:
            self._unsent.append(message)
        self._network.send(self, encode_body([message]))

    send = post

    def flush(self) -> None:
        """Do nothing: messages leave when they are posted."""

    def unsent(self) -> list[Message]:
        """Return the posted messages of a connection that is not established yet."""
        return self._unsent

    @property
    def closed(self) -> bool:
        """Whether the connection has ended on this side."""
        return not self.is_open

    @property
    def waiting(self) -> int:
        """Return 0: no bytes wait to be flushed."""
        return 0

    def established(self) -> None:
        """Record that the connection is established."""
        self.is_dialling = False
        self._unsent = []

    def close(self) -> None:
        """End the connection. Messages that this end has sent still arrive."""
        self._network.close(self)


class Network:
    """All hosts, and the connections between their processes."""

    def __init__(self, kernel: Kernel, options: NetworkOptions) -> None:
        self._kernel = kernel
        self._options = options
        self._rng = kernel.rng("network")
        self.hosts: dict[str, Host] = {}
        self._places: dict[bytes, Host] = {}
        """The machines of the nodes and of the head, by the prefix of their processes' ids."""
        self._processes: dict[tuple[Host, bytes], Process] = {}
        """The processes to which others can connect, by machine and id."""
        self._ends: dict[int, End] = {}
        self._count = 0
        self._blocked: set[Pair] = set()
        self._latency: dict[Pair, float] = {}

    # ---- places of processes -----------------------------------------------------------------

    def add_host(self, host: Host, prefix: bytes) -> None:
        """Add a machine for processes whose ids begin with this prefix."""
        self.hosts[host.name] = self._places[prefix] = host

    def host_of(self, process: bytes) -> Host | None:
        """Return the machine of a process, given the process's id or its prefix."""
        return self._places.get(process[:PREFIX_BYTES])

    def add_process(self, host: Host, process_id: bytes, process: Process) -> None:
        """Let others connect to this process."""
        self._processes[host, process_id] = process

    def find_process(self, host: Host, process_id: bytes) -> Process | None:
        """Return the process with this id if it runs on its machine."""
        return self._processes.get((host, process_id))

    def remove_process(self, host: Host, process_id: bytes) -> None:
        """Let no other process connect to this process any more."""
        self._processes.pop((host, process_id), None)

    # ---- connections -------------------------------------------------------------------------

    def dial(self, host: Host, process: Process, target: bytes) -> End:
        """Connect a process to another process. If the other process does not exist, the connection
        ends immediately.
        """
        to = self.host_of(target)
        far_host = to or host
        near, far = self._end(host), self._end(far_host)
        near.other, far.other = far, near
        near.process = process
        near.is_dialling = True

        def arrive() -> None:
            found = self.find_process(far_host, target) if far_host.is_up else None
            if found is None or to is None:
                self._refuse(near)
            else:
                far.process = found
                near.established()
                self._pump_later(near, 0.0)

        if to is None:
            near.refusal, near.refusal_status = "nobody knows where that is", Status.NO_NODE
            host.later(REFUSED_S, partial(self.kernel_end, near))
        elif self.is_blocked(host, far_host):
            far.process = None
            self._wait_for_process(near, target)
            self._give_up_later(near)
        else:
            self._kernel.after(self._travel_s(host, far_host), arrive)
        return near

    def _wait_for_process(self, near: End, target: bytes) -> None:
        """Wait until the partition ends, and then connect to the process that has the id at that
        time.
        """

        def look() -> None:
            if not near.is_open:
                return
            if self.is_blocked(near.host, near.other.host):
                self._kernel.after(0.25, look)
                return
            near.other.process = self.find_process(near.other.host, target)
            if near.other.process is None:
                self._refuse(near)
                return
            near.established()
            self._pump_later(near, 0.0)

        self._kernel.after(0.25, look)

    def _refuse(self, near: End) -> None:
        """End a dial, because the process with this id or its machine has ended."""
        far = near.other
        near.refusal_status = Status.NO_PROCESS if far.host.is_up else Status.UNREACHABLE
        near.refusal = "it is not there"
        self._finish(far)
        self._kernel.after(self._travel_s(far.host, near.host), partial(self.kernel_end, near))

    def kernel_end(self, end: End) -> None:
        """Report to this end that the connection has ended."""
        end.host.do(lambda: self._hear_end(end), end.process)

    def _end(self, host: Host) -> End:
        self._count += 1
        end = End(self, host, self._count)
        self._ends[end.number] = end
        return end

    def send(self, end: End, body: bytes | None) -> None:
        """Send bytes to the other end. None means that this end was closed."""
        if not end.is_open:
            return
        far = end.other
        now = self._kernel.now
        arrives = max(now + self._travel_s(end.host, far.host), end.next_at)
        end.next_at = arrives
        end.queue.append((arrives, body))
        if not self.is_blocked(end.host, far.host):
            self._kernel.at(arrives, partial(self._pump, end))

    def close(self, end: End) -> None:
        """Close the connection at this end."""
        if end.is_open:
            self.send(end, None)
            self._finish(end)

    def _pump(self, end: End) -> None:
        """Deliver the messages from this end that have arrived, in order."""
        far = end.other
        if far.process is None or not far.is_open or self.is_blocked(end.host, far.host):
            # the dial is not finished or the way is blocked; the end is looked at again afterwards
            return
        if end.queue and end.queue[0][0] <= self._kernel.now:
            far.host.do(lambda: self._deliver(end), far.process)

    def _deliver(self, end: End) -> None:
        far = end.other
        if not end.queue or not far.is_open or self.is_blocked(end.host, far.host):
            return
        _, body = end.queue.popleft()
        if body is None:
            self._hear_end(far)
            return
        process = far.process
        if process is None:
            return
        for message in decode_body(body):
            by = end.process.name if end.process else "?"
            self._kernel.note(process.name, by, message, body)
            far.host.guard(partial(process.on_message, far, message))

    def _hear_end(self, end: End) -> None:
        if not end.is_open:
            return
        self._finish(end)
        process = end.process
        if process is not None:
            self._kernel.log(process.name, f"connection {end.number} has ended")
            end.host.guard(partial(process.on_end, end))

    def _finish(self, end: End) -> None:
        end.is_open = False
        if not end.other.is_open:
            self._ends.pop(end.number, None)
            self._ends.pop(end.other.number, None)

    def _pump_later(self, end: End, delay_s: float) -> None:
        when = self._kernel.now + delay_s
        held, end.queue = end.queue, deque()
        for arrives, body in held:
            when = max(arrives, when)
            end.queue.append((when, body))
            self._kernel.at(when, partial(self._pump, end))
        end.next_at = max(end.next_at, when)

    # ---- distance ----------------------------------------------------------------------------

    def _travel_s(self, one: Host, other: Host) -> float:
        if one is other:
            return LOCAL_S * one.slowness * (1.0 + self._rng.random())
        pair = _pair(one, other)
        if pair not in self._latency:
            self._latency[pair] = self._rng.uniform(*self._options.latency_s)
        jitter = (
            self._rng.expovariate(1.0) * self._options.jitter_s if self._options.jitter_s else 0
        )
        return (self._latency[pair] + jitter) * one.slowness * other.slowness

    def is_blocked(self, one: Host, other: Host) -> bool:
        """Whether messages between these machines are blocked now."""
        return _pair(one, other) in self._blocked

    # ---- faults ------------------------------------------------------------------------------

    def block(self, one: Host, other: Host) -> None:
        """Block all messages between these machines. A connection that waits too long is ended."""
        self._blocked.add(_pair(one, other))
        for end in self._between(one, other):
            self._give_up_later(end)

    def unblock(self, one: Host, other: Host) -> None:
        """Let waiting messages through."""
        pair = _pair(one, other)
        if pair not in self._blocked:
            return
        self._blocked.discard(pair)
        for end in self._between(one, other):
            self._pump_later(end, self._options.latency_s[1])

    def unblock_all(self) -> None:
        """End every partition."""
        for one, other in sorted(self._blocked):
            self.unblock(self.hosts[one], self.hosts[other])

    def cut(self, one: Host, other: Host) -> None:
        """Break the connections between these machines. Some messages on their way are lost."""
        for end in self._between(one, other):
            self._break(end)

    def _break(self, end: End) -> None:
        """Deliver a part of the messages on their way, and then report to the other end that the
        connection broke.
        """
        keep = self._rng.randint(0, len(end.queue))
        while len(end.queue) > keep:
            end.queue.pop()
        end.queue.append((self._kernel.now, None))
        end.next_at = self._kernel.now
        self._pump_later(end, self._rng.uniform(0.0, self._options.notice_s))

    def between_machines(self) -> list[End]:
        """Return one end of each established connection between two machines."""
        return [
            end
            for end in self._ends.values()
            if end.number < end.other.number
            and end.host is not end.other.host
            and end.is_open
            and end.other.is_open
            and end.process is not None
            and end.other.process is not None
        ]

    def sever(self, end: End) -> None:
        """Break one connection. In each direction, some messages on their way are lost."""
        for one in (end, end.other):
            self._break(one)

    def host_down(self, host: Host, is_noticed: bool) -> None:
        """End a machine.

        With `is_noticed`, other machines notice the end immediately, as with processes that end.
        Otherwise they notice only that the machine is silent.
        """
        for end in list(self._ends.values()):
            if end.host is not host or not end.is_open:
                continue
            far = end.other
            self._finish(end)
            if is_noticed:
                self._break(end)
            elif far.host is not host:
                self._give_up_later(far)

    def _give_up_later(self, end: End) -> None:
        wait = self._rng.uniform(0.1, 1.0) * self._options.give_up_s

        def give_up() -> None:
            is_stuck = self.is_blocked(end.host, end.other.host) or not end.other.host.is_up
            if end.is_open and is_stuck:
                end.queue.append((self._kernel.now, None))
                if end.is_dialling:
                    end.refusal, end.refusal_status = "it does not answer", Status.UNREACHABLE
                self._hear_end(end)

        end.host.later(wait, give_up)

    def _between(self, one: Host, other: Host) -> list[End]:
        return [
            end
            for end in self._ends.values()
            if {end.host.name, end.other.host.name} == {one.name, other.name}
        ]

    def process_gone(self, host: Host, process: Process) -> None:
        """End a process. Everything that it has sent arrives; then its connections end."""
        for end in list(self._ends.values()):
            if end.process is process and end.host is host:
                self.close(end)


def _pair(one: Host, other: Host) -> Pair:
    return (one.name, other.name) if one.name < other.name else (other.name, one.name)
