"""A simulated process of a node: the production owner with simulated connections and files."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from phalanx.errors import ObjectLostError
from phalanx.model.ids import INDEX_BITS, PREFIX_BYTES, node_process_id
from phalanx.model.own_time import OwnTime
from phalanx.objects import failures
from phalanx.objects.reference import ObjectRef
from phalanx.owner.core import OwnerCore
from phalanx.owner.objects.table import Callback
from phalanx.owner.shell import OwnerShell
from phalanx.owner.transport import Connection
from phalanx.protocol.messages import FAILED, SHARED, CancelOwned, Done, Value
from phalanx.protocol.node_messages import GivenBack, Used
from phalanx.protocol.requests.node import PullObject
from phalanx_research.chaos.files import SIZE_BYTES, ProcessFiles
from phalanx_research.chaos.hosts import Host
from phalanx_research.chaos.network import End, Message, Network
from phalanx_research.chaos.promises import Promises
from phalanx_research.chaos.running import Resume, Wait
from phalanx_research.chaos.work import Outcome

MIN_TICK_S = 0.05


class SimProcess:
    """The common base of drivers and workers."""

    owner: OwnerCore
    node_end: End

    def __init__(
        self,
        host: Host,
        prefix: bytes,
        network: Network,
        promises: Promises,
        name: str,
        kind: str,
    ) -> None:
        """Start the process. `prefix` is the prefix of the process ids of its node, which is on the
        same machine.
        """
        self.host = host
        self.clock = OwnTime(host.clock)
        self.prefix = prefix
        self.network = network
        self.promises = promises
        self.name = name
        self.kind = kind
        self.process_id = b""
        """The process's id; empty until the process has joined."""
        self.is_alive = True

    def dial_node(self) -> None:
        """Connect to the node."""
        self.node_end = self.network.dial(self.host, self, node_process_id(self.prefix))

    def join(self, process_id: bytes) -> None:
        """Set the process's id. From now on, other processes can connect to it."""
        self.process_id = process_id
        self.network.add_process(self.host, process_id, self)
        self.files = ProcessFiles(self.host, process_id, self.node_end)
        self.owner = OwnerCore(
            process_id,
            self.kind,
            OwnerShell(
                transport=self,
                outbox=self,
                node=self.node_end,
                files=self.files,
                pack=_pack_nothing,
                clock=self.clock,
                wall=self.host.clock,
                request_tick=self._request_tick,
                warn=lambda text: None,
            ),
        )
        self._tick_at = 0.0
        self._request_tick()

    def die(self, how: str) -> None:
        """End the process immediately."""
        if not self.is_alive:
            return
        self.is_alive = False
        self.host.kernel.log(self.name, f"ends: {how}")
        self.network.remove_process(self.host, self.process_id)
        self.gone()
        self.network.process_gone(self.host, self)

    def gone(self) -> None:
        """Clean up after the process has ended for any reason."""
        self.promises.owner_ended(self)

    # ---- Transport and Outbox ----------------------------------------------------------------

    def dial(self, process: bytes) -> End | None:
        """Connect to another process."""
        is_local = process[:PREFIX_BYTES] == self.prefix
        if is_local and self.network.find_process(self.host, process) is None:
            return None
        end = self.network.dial(self.host, self, process)
        end.on_post = self._posted
        return end

    def watch(self, connection: Connection) -> None:
        """Do nothing, since simulated connections are watched from the start."""

    def close(self, connection: Any) -> None:
        connection.close()

    def post(self, connection: Connection, message: Message) -> None:
        """Send a message over a connection."""
        connection.post(message)

    def flush_later(self, connection: Connection) -> None:
        """Do nothing, since no message waits here."""

    def _posted(self, message: Message) -> None:
        self.promises.posted(self, message)

    # ---- time --------------------------------------------------------------------------------

    def _request_tick(self) -> None:
        self._plan_tick(MIN_TICK_S)

    def _plan_tick(self, delay_s: float) -> None:
        at = self.host.kernel.now + delay_s
        if at < self._tick_at or self._tick_at <= self.host.kernel.now:
            self._tick_at = at
            self.host.timer(delay_s, lambda: self._tick(at), self)

    def _tick(self, planned: float) -> None:
        if self.is_alive and planned == self._tick_at:
            self.do(self._on_tick)

    def _on_tick(self) -> None:
        next_s = self.owner.tick(self.clock())
        self._plan_tick(max(next_s, MIN_TICK_S))

    def later(self, delay_s: float, action: Callable[[], None]) -> None:
        """Run an action after this delay (longer on a slow machine) if the process is still alive
        then.
        """
        self.host.later(delay_s * self.host.slowness, lambda: self.do(action), self)

    def do(self, action: Callable[[], None]) -> None:
        """Run a step of this process, if it is still alive."""

        def step() -> None:
            action()
            self.settle()

        if self.is_alive:
            self.host.guard(step)

    def settle(self) -> None:
        """Report all released references, as a real process's loop does after each round."""
        owner, dropped = self.owner, self.files.dropped
        while any(owner.unsent) or dropped:
            owner.flush()
            self.files.release()

    # ---- messages ----------------------------------------------------------------------------

    def on_message(self, end: End, message: Message) -> None:
        """Handle a message over a connection."""
        if not self.is_alive:
            return
        now = self.clock()
        if isinstance(message, CancelOwned):
            self.promises.cancelled((self.name, message.number >> INDEX_BITS))
        if isinstance(message, Done):
            self.owner.done(end, message, now)
        elif isinstance(message, GivenBack):
            self.files.delete(message.name)
        elif not self.take(end, message):
            self.owner.handle(end, message, now)
        self.settle()

    def take(self, end: End, message: Message) -> bool:
        """Handle a message unless it is for an owner. Returns False for a message to an owner."""
        return False

    def on_end(self, end: End) -> None:
        """Handle the end of a connection."""
        if end is self.node_end:
            self.die("its node is gone")
        elif self.is_alive:
            self.owner.connection_ended(end)
            self.settle()

    # ---- objects, as `get` reads them --------------------------------------------------------

    def read(self, ref: ObjectRef[Any], then: Callable[[Outcome], None]) -> None:
        """Wait for a value, and read it. If the value is lost, wait again."""
        self.later(0.0, lambda: self._read(ref, then))

    def _read(self, ref: ObjectRef[Any], then: Callable[[Outcome], None]) -> None:
        value = ref._value
        if value is None:
            self.owner.objects.add_waiter(ref, Callback(lambda: self.read(ref, then)))
            self.owner.objects.fetch(ref)
        elif type(value) is bytes:
            then(value)
        else:
            assert isinstance(value, Value)
            if value.kind == FAILED:
                then(failures.load(value.data))
            elif value.kind == SHARED:
                name = value.data.decode()
                self.open(name)(lambda content: self._opened(ref, name, content, then))
            else:
                then(value.data)

    def _opened(
        self,
        ref: ObjectRef[Any],
        name: str,
        content: bytes | None,
        then: Callable[[Outcome], None],
    ) -> None:
        if content is not None:
            then(content)
            return
        self.owner.objects.recover(ref, name)
        self.read(ref, then)

    def open(self, name: str) -> Wait:
        """Open a file. If the file is not here, and another node may have it, fetch it first. The
        result is None if the file is gone.
        """

        def wait(resume: Resume) -> None:
            content = self.host.content(name)
            if content is not None:
                self.node_end.post(Used(name))
            if content is not None or not self.files.can_be_elsewhere(name):
                resume(content)
                return

            def answered(answer: Callable[[], None]) -> None:
                try:
                    answer()
                except ObjectLostError:
                    resume(None)
                else:
                    self.node_end.post(Used(name))
                    resume(self.host.content(name))

            self.owner.requests.call_async(PullObject(name, SIZE_BYTES), answered)

        return wait


def _pack_nothing(value: Any) -> Any:
    raise AssertionError(f"simulated processes pickle nothing: {value!r}")
