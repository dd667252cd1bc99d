"""A simulated worker process: the production worker core with simulated code, which only takes
time.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from functools import partial
from typing import Any

import msgspec

from phalanx.errors import ObjectStoreFullError
from phalanx.objects.reference import ObjectRef
from phalanx.owner.peers.redialling import GIVE_UP_S
from phalanx.owner.tasks.records import ClassKey, FunctionRecord, Template
from phalanx.protocol.messages import (
    INLINE,
    PROTOCOL_VERSION,
    SHARED,
    Call,
    Cancel,
    CancelOwned,
    Done,
    Failed,
    Hello,
    Item,
    Payload,
    Task,
    Value,
)
from phalanx.protocol.node_messages import CreateActor, JobSetup
from phalanx.protocol.requests.node import ReserveMemory
from phalanx.worker.assigned import Connection, Entry, Key
from phalanx.worker.context import TaskContext
from phalanx.worker.core import WorkerCore
from phalanx.worker.references import TaskReferences
from phalanx_research.chaos.actor import SimActor
from phalanx_research.chaos.files import SIZE_BYTES
from phalanx_research.chaos.hosts import Host
from phalanx_research.chaos.network import End, Message, Network
from phalanx_research.chaos.process import SimProcess
from phalanx_research.chaos.promises import Promises
from phalanx_research.chaos.running import Body, Interrupted, Resume, Running, Wait
from phalanx_research.chaos.work import DIES, RAISED, RAISES, Label, Work

_CHILD = Template(
    function=FunctionRecord(b"child", "child", b""),
    key=ClassKey((("CPU", 0.5),), b"", b"", "", 0, False),
    name="child",
    returns=1,
    max_retries=1,
)


class SimWorker(SimProcess):
    """One worker process, from its fork to its end."""

    def __init__(
        self,
        host: Host,
        prefix: bytes,
        network: Network,
        promises: Promises,
        worker_id: bytes,
        died: Callable[[str, float], None],
    ) -> None:
        """Start the worker. `died` is called once, with how the process ended, and the time until
        which its last messages are on their way.
        """
        name = f"{host.name}/w{int.from_bytes(worker_id[6:12], 'big')}"
        super().__init__(host, prefix, network, promises, name, "worker")
        self.worker_id = worker_id
        self._died = died
        self.actor: SimActor | None = None
        self._run: Running | None = None
        self.interruptible: set[TaskContext] = set()
        """The work whose code has started. Before that, reading arguments cannot be interrupted."""

    def begin(self) -> None:
        """Start the process, and introduce it to its node."""
        if not self.is_alive:
            return
        self.dial_node()
        self.join(self.worker_id)
        self.references = TaskReferences(self.worker_id, self.owner.references, GIVE_UP_S)
        self.core = WorkerCore(
            self.worker_id,
            self.node_end,
            self.references,
            self,
            clock=self.clock,
            wall=self.host.clock,
        )
        self.owner.local_work = self
        self.node_end.post(Hello(PROTOCOL_VERSION, self.worker_id, "worker", 1))

    def die(self, how: str) -> None:
        """End the process immediately."""
        if self.is_alive:
            read_until = self.node_end.next_at if self.process_id else 0.0
            super().die(how)
            self._died(how, read_until)

    def gone(self) -> None:
        """Clean up after the process has ended."""
        if self._run is not None:
            self._run.abandon()
        if self.actor is not None:
            self.actor.abandon()
        super().gone()
        self.promises.worker_ended(self)

    # ---- messages ----------------------------------------------------------------------------

    def take(self, end: End, message: Message) -> bool:
        """Handle a message for a worker. Returns False for a message to an owner."""
        if isinstance(message, Cancel):
            self.promises.cancel_came(self, end.peer, message)
        return self.core.handle(end, message)

    def settle(self) -> None:
        """Report all released references, and start the next work."""
        self._go_on()
        if self.is_alive:
            super().settle()

    def _on_tick(self) -> None:
        self.core.tick(self.clock())
        super()._on_tick()

    # ---- LocalWork ---------------------------------------------------------------------------

    def connection_lost(self, connection: Connection) -> None:
        self.core.connection_lost(connection)

    def peer_lost(self, process: bytes) -> None:
        self.core.peer_lost(process, is_gone=self.owner.peers.is_here(process))

    def inputs_from(self, prefix: bytes) -> list[str]:
        """Return the names of the arguments' files on the node with this prefix."""
        return self.core.inputs_from(prefix)

    # ---- effects of the worker's core --------------------------------------------------------

    def wake(self) -> None:
        """Do nothing, since the core is checked after each message anyway."""

    def interrupt(self, context: TaskContext) -> None:
        """Interrupt the code. The code notices this a moment later, as with a signal."""
        self.later(0.0, partial(self._interrupt, context))

    def _interrupt(self, context: TaskContext) -> None:
        if self._run is not None and context in self.interruptible:
            self._run.interrupt()

    def progress(self, context: TaskContext) -> None:
        """Continue a stream that waits for its reader."""
        resume, context.progress = context.progress, None
        if resume is not None:
            resume(None)

    def cancel_children(self, parent: Key) -> None:
        """Cancel the tasks that a task has submitted."""
        self.owner.cancelling.cancel_children(parent)

    def set_up(self, message: JobSetup) -> None:
        """Do nothing, since there is no environment to prepare."""

    def become(self, message: CreateActor) -> SimActor:
        """Become an actor."""
        self.actor = SimActor(
            message, self, self.node_end, self.host.clock, self.promises, self.interruptible
        )
        return self.actor

    # ---- tasks -------------------------------------------------------------------------------

    def _go_on(self) -> None:
        core, actor = self.core, self.actor
        while self.is_alive and core.running is None:
            if core.stopping and (actor is None or actor.is_drained):
                core.tasks.return_all()
                self.die(core.stopping)
            elif core.is_set_up and actor is not None:
                actor.go_on()
                return
            elif core.is_set_up and (entry := core.tasks.take()) is not None:
                self._begin(entry)
            else:
                return

    def _begin(self, entry: Entry) -> None:
        connection, task = entry
        assert isinstance(task, Task)
        lease = self.core.lease_of(connection)
        context = TaskContext(connection.peer, task.number, task.name, task.attempt, lease, False)
        self.core.running_for = connection
        self.core.running = context
        began = self.host.clock()
        started = partial(self.promises.task_started, self, connection.peer, task, lease)
        body = self.code(connection, task, context, started, [])
        run = Running(body, lambda message: self._ended(entry, context, message, began))
        if self.core.running is context:  # otherwise the work has already ended
            self._run = run

    def _ended(self, entry: Entry, context: TaskContext, message: Any, began: float) -> None:
        connection, task = entry
        assert isinstance(task, Task)
        self._run = self.core.running = None
        if message is not None:
            self.promises.task_ended(self, isinstance(message, Done))
        if self.finish(connection, context, message):
            definition = self.core.functions[task.function]
            self.core.ended(connection, definition, self.host.clock() - began)

    def finish(self, connection: Connection, context: TaskContext, message: Any) -> bool:
        """Send an outcome once the owners of all held objects know that this process holds the
        objects.
        """
        if message is None:
            self.die("exit code 1")
            return False
        third = self.references.settle(context, connection.peer)
        send = partial(connection.post, message)
        if third:
            self.owner.references.syncs.after(third, send)
        else:
            send()
        self.owner.children.forget((connection.peer, message.number))
        return True

    # ---- simulated code ----------------------------------------------------------------------

    def code(
        self,
        connection: Connection,
        message: Task | Call,
        context: TaskContext,
        started: Callable[[], None],
        kept: list[ObjectRef[Any]],
    ) -> Body:
        """Run a task or call. Returns the outcome as a message; None if the process must die.

        `kept` has the references that the actor keeps.
        """
        number, began = message.number, self.host.clock()
        lost = yield from self._open_inputs(message)
        if lost:
            return Failed(number, " ".join(lost).encode(), began, self.host.clock(), "lost")
        if context.is_cancelled:
            return Failed(number, b"", began, self.host.clock(), "cancelled")
        started()
        work, refs = self._arguments(message.args, number, context)
        end = work.end_of(message.attempt)
        if work.keeps:
            kept[:] = refs
        self.interruptible.add(context)
        try:
            yield from self._wait_for_others(work, [*refs, *kept], context)
            if message.returns < 0:
                count = work.items if end not in (RAISES, DIES) else work.items // 2
                yield from self._give_items(connection, message, work, count, context)
            else:
                yield from self._take_time(work, work.seconds)
        except Interrupted:
            return Failed(number, b"", began, self.host.clock(), "cancelled")
        finally:
            self.interruptible.discard(context)
        self.promises.code_ended(self, connection.peer, number)
        if end == DIES:
            return None
        ended = self.host.clock()
        if end == RAISES:
            return Failed(number, RAISED, began, ended)
        values = []
        for index in range(1, max(message.returns, 1) + 1):
            values.append((yield from self._value(work, connection.peer, message, index)))
        return Done(number, values[0], began, ended, values[1:])

    def _open_inputs(self, message: Task | Call) -> Generator[Wait, Any, list[str]]:
        """Read the files of all arguments. Returns the names of missing files."""
        lost = []
        for value in (message.args, *message.inputs):
            if type(value) is Value and value.kind == SHARED:
                name = value.data.decode()
                if (yield self.open(name)) is None:
                    lost.append(name)
        return lost

    def _arguments(
        self, args: Payload, number: int, context: TaskContext
    ) -> tuple[Work, list[ObjectRef[Any]]]:
        refs: list[ObjectRef[Any]] = []
        data = args
        if type(args) is Value:
            data = args.data
            refs = self.references.adopt(args.refs, context)
        return msgspec.msgpack.decode(data, type=Work).of(number), refs  # type: ignore[arg-type]

    def _take_time(self, work: Work, seconds: float) -> Body:
        until = self.host.kernel.now + seconds * self.host.slowness
        while True:
            try:
                yield lambda resume: self.later(
                    max(until - self.host.kernel.now, 0.0) / self.host.slowness,
                    partial(resume, None),
                )
                return
            except Interrupted:
                if not work.is_stubborn:
                    raise

    def _wait_for_others(
        self, work: Work, refs: list[ObjectRef[Any]], context: TaskContext
    ) -> Body:
        """Cancel or read the work to which the argument refers, or submit children and wait for
        them.
        """
        for ref in refs if work.cancels else ():
            peer = self.owner.peers.peer(ref._owner)
            if peer is not None:
                peer.send(CancelOwned(ref._number, force=False, recursive=True))
        children = [self._submit_child(context) for _ in range(work.children)]
        waited = children + (refs if work.reads else [])
        if not waited:
            return
        if not context.is_actor:
            self.promises.usage.blocked(self.prefix, self.name)
            self.core.block()
        try:
            for ref in waited:
                outcome = yield partial(self.read, ref)
                self.promises.reads.on_read(self, ref, outcome)
        finally:
            if not context.is_actor and self.is_alive:
                self.core.unblock()

    def _submit_child(self, context: TaskContext) -> ObjectRef[Any]:
        work = Work(seconds=0.05)
        args = msgspec.msgpack.encode(work)
        parent = (context.owner, context.number)
        task = self.owner.tasks.new(_CHILD, args, None, None)
        self.owner.tasks.submit(task, parent)
        self.promises.task_promised(self, _CHILD, work, task.refs, None, None, parent)
        return task.refs[0]

    def _give_items(
        self,
        connection: Connection,
        message: Task | Call,
        work: Work,
        count: int,
        context: TaskContext,
    ) -> Body:
        self.core.streams.begin(connection, message.number, context)
        first = 0 if message.returns == -1 else 1
        try:
            for index in range(1, count + 1):
                yield from self._take_time(work, work.seconds / work.items)
                value = yield from self._value(work, connection.peer, message, first + index)
                connection.post(Item(message.number, index, value))
                while context.is_ahead(index, message.backpressure):
                    if context.is_cancelled:
                        raise Interrupted
                    yield partial(self._await_reader, context)
        finally:
            self.core.streams.end(connection, message.number)

    def _await_reader(self, context: TaskContext, resume: Resume) -> None:
        context.progress = resume

    def _value(
        self, work: Work, owner: bytes, message: Task | Call, index: int
    ) -> Generator[Wait, Any, Payload]:
        number = message.number << 32 | index
        label = Label(owner, number, self.process_id, message.attempt).encode()
        if work.is_large:
            is_full = (yield self._reserve) if not self.files.credit_bytes else False
            return self.files.write(label, is_for_disk=is_full)
        if not work.gives:
            return label
        given = [self._put() for _ in range(work.gives)]
        self.references.hand_over(given, owner, message.number)
        return Value(INLINE, label, [], [(ref._owner, ref._number) for ref in given])

    def _reserve(self, resume: Resume) -> None:
        """Ask for room in memory. The result says whether there is room."""

        def answered(answer: Callable[[], int]) -> None:
            try:
                self.files.credit_bytes += answer()
            except ObjectStoreFullError:
                resume(True)
            else:
                resume(False)

        self.owner.requests.call_async(ReserveMemory(SIZE_BYTES), answered)

    def _put(self) -> ObjectRef[Any]:
        number = self.owner.next_object()
        label = Label(self.process_id, number, self.process_id).encode()
        ref = self.owner.objects.put(number, label, None, None)
        self.owner.references.export(ref)
        return ref
