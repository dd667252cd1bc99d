"""The core of a worker, which runs tasks of owners one after another, or is one actor.

The core has the work that was sent here, the running work with its lease, and the cancelled work.
The executor of user code asks for the next task, and reports when the task has ended.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Protocol

from phalanx.model.ids import PREFIX_BYTES
from phalanx.objects.names import prefix_of_name
from phalanx.protocol.copy_messages import Prefetch
from phalanx.protocol.messages import (
    SHARED,
    Call,
    Calls,
    Cancel,
    Consumed,
    Function,
    Lease,
    Leaving,
    Message,
    Payload,
    Recall,
    Taken,
    Task,
    Tasks,
    Unlease,
    Value,
)
from phalanx.protocol.node_messages import (
    Blocked,
    CreateActor,
    JobSetup,
    Stop,
    Terminate,
    Unblocked,
    WorkerLeaving,
)
from phalanx.worker.assigned import AssignedWork, Connection, Key, calls_of, tasks_of
from phalanx.worker.context import LeaseInfo, TaskContext, lease_info
from phalanx.worker.open_streams import OpenStreams
from phalanx.worker.references import TaskReferences


class Node(Protocol):
    """The link to this process's node."""

    def post(self, message: Message) -> None:
        """Send a message with the next flush."""
        ...

    def send(self, message: Message) -> None:
        """Send a message now, and not with the next flush."""
        ...


class HostedActor(Protocol):
    """The actor that this worker has become."""

    def receive(self, connection: Connection, calls: Iterable[Call]) -> None:
        """Handle new calls, in order."""
        ...

    def cancel(self, key: Key) -> None:
        """Cancel a call of a caller."""
        ...

    def drain(self) -> None:
        """End after the calls that have arrived are done."""
        ...

    def waiting(self) -> list[AssignedWork]:
        """Return the calls that have not begun."""
        ...


class Effects(Protocol):
    """Carries out the decisions of a worker, in its process."""

    def wake(self) -> None: ...

    def interrupt(self, context: TaskContext) -> None:
        """Interrupt the running task, if that is possible."""
        ...

    def progress(self, context: TaskContext) -> None:
        """Let the producer of a stream continue, because the stream's reader has taken more
        items.
        """
        ...

    def cancel_children(self, parent: Key) -> None:
        """Cancel the work that a task or call has started."""
        ...

    def set_up(self, message: JobSetup) -> None:
        """Prepare the process for a job. Nothing runs before that."""
        ...

    def become(self, message: CreateActor) -> HostedActor:
        """Make the actor that this worker is from now on."""
        ...


class Definition:
    """A function of an owner. It is unpickled at its first use. Its calls are counted."""

    __slots__ = ("calls", "function", "max_calls", "mean_s", "name", "pickle")

    def __init__(self, name: str, data: bytes, max_calls: int) -> None:
        self.name = name
        self.pickle = data
        self.max_calls = max_calls
        """The number of calls after which the worker ends; 0 for any number of calls."""
        self.function: Any = None
        self.calls = 0
        self.mean_s = 1.0
        """The mean of the function's run times in seconds; before the first run, a guess."""


SPENT = "max_calls reached"
"""The reason why a process ends after it has called a function as often as allowed."""

_NO_LEASE = LeaseInfo(b"", {}, {})


class WorkerCore:
    """The work of one worker process."""

    def __init__(
        self,
        me: bytes,
        node: Node,
        references: TaskReferences,
        effects: Effects,
        *,
        clock: Callable[[], float],
        wall: Callable[[], float],
    ) -> None:
        """`clock` counts seconds; `wall` returns seconds since the epoch."""
        self._prefix = me[:PREFIX_BYTES]
        self._node = node
        self._references = references
        self._effects = effects
        self._clock = clock
        self._wall = wall
        self.tasks = AssignedWork()
        self.functions: dict[bytes, Definition] = {}
        self._leases: dict[Connection, LeaseInfo] = {}
        self.is_set_up = False
        """Whether the process is ready for the work of its job."""
        self.actor: HostedActor | None = None
        self.running: TaskContext | None = None
        """The running task. An actor keeps track of its calls itself."""
        self.running_for: Connection | None = None
        """The connection of the task that began last."""
        self.streams = OpenStreams()
        self.stopping = ""
        """Why the process will end after the running work."""
        self._blocked = 0

    # ---- messages ----------------------------------------------------------------------------

    def handle(self, connection: Connection, message: Message) -> bool:
        """Handle a message about work. Returns False if the message is not for a worker."""
        kind = type(message)
        if kind is Call:
            if message.inputs:  # type: ignore[union-attr]
                self._prefetch(message.inputs)  # type: ignore[union-attr]
            if self.actor is not None:
                self.actor.receive(connection, (message,))  # type: ignore[arg-type]
            return True
        if kind is Task:
            if message.inputs:  # type: ignore[union-attr]
                self._prefetch(message.inputs)  # type: ignore[union-attr]
            self.tasks.append((connection, message))  # type: ignore[arg-type]
            self._effects.wake()
            return True
        if kind is Tasks:
            for task in tasks_of(message):  # type: ignore[arg-type]
                self.tasks.append((connection, task))
            self._effects.wake()
            return True
        if kind is Calls:
            if self.actor is not None:
                self.actor.receive(connection, calls_of(message))  # type: ignore[arg-type]
            return True
        return self._handle_rare(connection, message)

    def _handle_rare(self, connection: Connection, message: Message) -> bool:
        match message:
            case Function():
                self.functions[message.function] = Definition(
                    message.name, message.pickle, message.max_calls
                )
            case Lease():
                self._leases[connection] = lease_info(message)
            case Unlease():
                self._leases.pop(connection, None)
            case Recall():
                self.tasks.return_all()
            case Cancel():
                self._cancel((connection.peer, message.number), message.recursive)
            case Consumed():
                self._consumed(connection, message)
            case Taken():
                self._references.taken(connection.peer, message.number)
            case CreateActor():
                self.actor = self._effects.become(message)
                self._effects.wake()
            case JobSetup():
                self._effects.set_up(message)
                self.is_set_up = True
                self._effects.wake()
            case Terminate():
                self.stop(message.reason)
            case Stop():
                self.stop("it was asked to stop")
            case _:
                return False
        return True

    def _prefetch(self, inputs: list[Payload]) -> None:
        """Request large arguments from other nodes before work reads them."""
        wanted = [
            (value.data.decode(), value.size)
            for value in inputs
            if type(value) is Value and value.kind == SHARED
        ]
        if any(prefix_of_name(name) != self._prefix for name, _ in wanted):
            self._node.post(Prefetch(wanted))

    def _consumed(self, connection: Connection, message: Consumed) -> None:
        context = self.streams.get(connection, message.number)
        if context is not None:
            context.consumed = max(context.consumed, message.count)
            self._effects.progress(context)

    def stop(self, reason: str) -> None:
        """End the process. An actor first finishes the calls that it has received; any other worker
        first finishes the task that it runs.
        """
        self.stopping = reason or "stopped"
        if self.actor is not None:
            self.actor.drain()
        self._effects.wake()

    # ---- cancelling --------------------------------------------------------------------------

    def _cancel(self, key: Key, recursive: bool) -> None:
        if self.tasks.cancel(key, self._wall()):
            return
        running = self.running
        is_running = running is not None and (running.owner, running.number) == key
        # The work is cancelled before its children, so that it sees its own end before theirs.
        if running is not None and is_running:
            running.is_cancelled = True
            self._effects.interrupt(running)
        elif self.actor is not None:
            self.actor.cancel(key)
        if recursive:
            self._effects.cancel_children(key)

    # ---- tasks run ---------------------------------------------------------------------------

    def lease_of(self, connection: Connection) -> LeaseInfo:
        """Return the lease under which the owner behind a connection uses this process."""
        return self._leases.get(connection, _NO_LEASE)

    def ended(self, connection: Connection, definition: Definition, seconds: float) -> bool:
        """Note that a task of this function has ended, and how long it ran. Returns whether the
        process ends, because it has called the function as often as allowed. If so, its node and
        its owner are told, and the tasks that have not begun are returned.
        """
        definition.calls += 1
        weight = 1.0 if definition.calls == 1 else 0.2
        definition.mean_s += weight * (seconds - definition.mean_s)
        if not definition.max_calls or definition.calls < definition.max_calls:
            return False
        connection.post(Leaving())
        self._node.send(WorkerLeaving(SPENT))
        self.tasks.return_all()
        self.stopping = SPENT
        return True

    def refuse_tasks(self) -> None:
        """Return tasks that came although the process will end, and tell their owners that it ends.

        The process may have been lent to another owner before the previous owner knew of the end.
        """
        for connection in {connection for connection, _ in list(self.tasks)}:
            connection.post(Leaving())
        self.tasks.return_all()

    def block(self) -> None:
        """Return the tasks that have not begun, because the running task will wait for long. Tell
        the node that other work can use its CPUs.
        """
        self.tasks.return_all()
        self._blocked += 1
        if self._blocked == 1:
            self._node.send(Blocked())

    def unblock(self) -> None:
        """Note that the task no longer waits."""
        self._blocked -= 1
        if self._blocked == 0:
            self._node.send(Unblocked())

    # ---- owners and nodes end ----------------------------------------------------------------

    def connection_lost(self, connection: Connection) -> None:
        """Drop the tasks that came over a connection which has ended. If the running task came over
        this connection, cancel and interrupt it.

        Their owner may have made another connection before the end was noticed here; tasks that
        came over that connection continue. An actor's calls run to their ends, except for calls
        that wait until their reader takes more items: they would wait for ever, and so would all
        calls behind them. So these calls are cancelled.
        """
        self.tasks.drop(connection)
        for context in self.streams.lost(connection):
            self._effects.progress(context)
        self._leases.pop(connection, None)
        running = self.running
        if running is not None and self.running_for is connection:
            running.is_cancelled = True
            self._effects.interrupt(running)

    def peer_lost(self, process: bytes, is_gone: bool) -> None:
        """Handle the loss of the last connection to a process. `is_gone`: whether the process has
        ended.
        """
        self._references.reader_lost(process, is_gone, self._clock())

    def inputs_from(self, prefix: bytes) -> list[str]:
        """Return the files that waiting work will read, if processes of a given node have written
        them.
        """
        waiting = [self.tasks, *(() if self.actor is None else self.actor.waiting())]
        return [name for work in waiting for name in work.files_from(prefix)]

    def tick(self, now: float) -> None:
        """Drop references that were kept long enough for readers that were lost."""
        self._references.tick(now)
