"""This process's calls of actors: their arguments, results and failures.

Every method is called with the runtime's lock held unless it says otherwise.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from phalanx.engines.embedded.client.arguments import failed_input
from phalanx.engines.embedded.client.task_streams import begin_stream, end_stream, stream_item
from phalanx.errors import (
    ActorDiedError,
    ActorPlacementGroupRemoved,
    ActorUnavailableError,
    ActorUnschedulableError,
    PhalanxError,
    TaskCancelledError,
)
from phalanx.model.ids import INDEX_BITS, task_id_bytes
from phalanx.model.lifecycle import DEAD, FINISHED
from phalanx.model.lifecycle import FAILED as STATE_FAILED
from phalanx.objects import failures
from phalanx.objects.streams import Stream
from phalanx.observe.task_journal import Run
from phalanx.owner.actor_clients import ActorClients
from phalanx.owner.actors import ActorClient, PendingCall
from phalanx.protocol.messages import (
    FAILED,
    Call,
    Cancel,
    Done,
    Failed,
    Item,
    Value,
)
from phalanx.protocol.node_messages import ActorUnreferenced

if TYPE_CHECKING:
    from phalanx.engines.embedded.client.runtime import Runtime
    from phalanx.engines.processes.connection import Connection


class Calls:
    """The caller's shell for actors."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self.clients = ActorClients(runtime, self._watch, self._dead)
        self._by_number: dict[int, PendingCall] = {}
        self.released: deque[bytes] = deque()

    # ---- actors ------------------------------------------------------------------------------

    def client(self, actor: bytes, watch: bool = True) -> ActorClient:
        """What this process knows of an actor; asks the node to tell it more."""
        found = self.clients.known.get(actor)
        if found is None:
            found = ActorClient(actor, self)
            self.clients.known[actor] = found
            if self._runtime.closed:
                found.state, found.reason = DEAD, "The node process is gone."
            elif watch:
                self._watch(actor)
        return found

    def _watch(self, actor: bytes) -> None:
        self._runtime.requests.tell("watch_actor", actor=actor)

    def _dead(self, client: ActorClient) -> None:
        client.hold = None

    # ---- calling -----------------------------------------------------------------------------

    def new_stream(self, call: PendingCall) -> Stream:
        """The stream of a generator method's call."""
        stream = Stream(self._runtime, self._runtime.process_id)
        begin_stream(self._runtime, stream, call)
        return stream

    def submit(self, call: PendingCall, parent: tuple[bytes, int] | None) -> None:
        """Queue a call. Takes the lock itself."""
        runtime = self._runtime
        with runtime.lock:
            if parent is not None:
                runtime.tasks.children.setdefault(parent, []).append(call.number)
            self._by_number[call.number] = call
            if call.inputs is None:
                call.actor.submit(call)
            elif not self._await_inputs(call):
                call.actor.submit(call)
                self._fetch_inputs(call)

    def _await_inputs(self, call: PendingCall) -> bool:
        """Count the inputs that are missing. Whether one that is there has failed the call."""
        call.on_ready = self._inputs_ready
        missing = [ref for ref in call.inputs or () if ref._value is None]
        call.missing = len(missing)
        for ref in missing:
            self._runtime.values.add_waiter(ref, call)
        return not missing and self._fail_with_input(call)

    def _fetch_inputs(self, call: PendingCall) -> None:
        if call.missing:
            for ref in call.inputs or ():
                self._runtime.values.fetch(ref)

    def _inputs_ready(self, call: PendingCall) -> None:
        if call.number not in self._by_number:
            return
        if failed_input(call.inputs) is not None:
            call.actor.withdraw(call)
            self._fail_with_input(call)
        call.actor.pump()

    def _fail_with_input(self, call: PendingCall) -> bool:
        value = failed_input(call.inputs)
        if value is None:
            return False
        self._complete_all(call, value)
        return True

    def send_calls(self, actor: ActorClient, calls: list[PendingCall], urgent: bool) -> None:
        """Put calls on the wire (effect of the client's machine)."""
        connection: Connection = actor.connection
        values = self._runtime.values
        for call in calls:
            inputs = [values.for_sending(ref) for ref in call.inputs] if call.inputs else []
            connection.post(
                Call(
                    call.number,
                    call.method,
                    call.args,
                    inputs,
                    call.returns,
                    call.group,
                    call.attempt,
                    call.backpressure,
                    actor.actor,
                )
            )
        if urgent or connection.waiting > 64:
            connection.flush()
        else:
            self._runtime.mark_dirty(connection)

    def fail_call(self, call: PendingCall, actor: ActorClient) -> None:
        """The call will not be answered (effect of the client's machine)."""
        error: PhalanxError
        actor_hex = actor.actor.hex()
        if actor.state != DEAD:
            error = ActorUnavailableError(
                f"The actor {actor.name} is unavailable for now: {actor.reason}. Call "
                f"{call.method} may or may not have run.",
                actor_hex,
            )
        elif actor.error in (b"ActorUnschedulableError", b"TaskUnschedulableError"):
            error = ActorUnschedulableError(actor.reason)
        elif actor.error == b"TaskPlacementGroupRemoved":
            error = ActorPlacementGroupRemoved(actor.reason)
        elif actor.error and not actor.error.isascii():
            cause = failures.load(actor.error)
            died = ActorDiedError(f"{actor.reason}\n{cause}", actor_hex)
            error = died
        else:
            error = ActorDiedError(actor.reason or "The actor died.", actor_hex)
        self._complete_all(call, failures.failed(error))

    # ---- results -----------------------------------------------------------------------------

    def done(self, connection: Connection, message: Done) -> bool:
        """A call gave its result; False when the number is no call of ours."""
        call = self._by_number.get(message.number)
        if call is None or call.actor.connection is not connection:
            return False
        if call.actor.finished(message.number) is None:
            return False
        del self._by_number[message.number]
        self._record(call, FINISHED, message, connection)
        values = self._runtime.values
        reconstruction = values.reconstruction
        maker = None
        if call.returns == 1:
            value = message.value
            if type(value) is not bytes:
                maker = reconstruction.maker(call, (value,))
            if reconstruction.running:
                reconstruction.finished(call)
            values.complete(call.refs[0], value, connection.peer, maker)
        elif call.stream is not None:
            end_stream(self._runtime, call, None)
        else:
            results = [message.value, *message.more]
            maker = reconstruction.maker(call, results)
            reconstruction.finished(call)
            for ref, value in zip(call.refs, results, strict=False):
                values.complete(ref, value, connection.peer, maker)
        return True

    def _record(
        self, call: PendingCall, state: str, message: Done | Failed, connection: Connection
    ) -> None:
        name = f"{call.actor.name}.{call.method}"
        run = Run(
            call.number,
            name,
            state,
            message.started,
            message.ended,
            connection.peer,
            call.attempt,
        )
        self._runtime.tasks.journal.add_run(run)

    def failed(self, connection: Connection, message: Failed) -> bool:
        """A call raised; False when the number is no call of ours."""
        call = self._by_number.get(message.number)
        if call is None or call.actor.connection is not connection:
            return False
        if call.actor.finished(message.number) is None:
            return False
        self._record(call, STATE_FAILED, message, connection)
        if message.kind == "cancelled":
            hex_id = task_id_bytes(self._runtime.process_id, call.number).hex()
            error = TaskCancelledError(hex_id, None)
            self._complete_all(call, failures.failed(error))
            return True
        if message.kind == "exit":
            # The actor is leaving: its end is on its way and fails this call with the reason.
            call.retries = 0
            call.actor.inflight[call.number] = call
            return True
        if message.kind == "lost":
            self._inputs_lost(call, message)
            return True
        if call.retries != 0 and failures.is_retriable(call.retry_exceptions, message.error):
            if call.retries > 0:
                call.retries -= 1
            call.actor.retry(call)
            return True
        self._complete_all(call, Value(FAILED, message.error))
        return True

    def _inputs_lost(self, call: PendingCall, message: Failed) -> None:
        """The actor did not find values of the call's arguments: it waits for them again, ahead
        of calls that have not left."""
        reconstruction = self._runtime.values.reconstruction
        error = reconstruction.inputs_lost(call, message.error.decode().split())
        if error is not None:
            self._complete_all(call, error)
        elif not self._await_inputs(call):
            call.actor.queue.appendleft(call)
            call.actor.pump()
            self._fetch_inputs(call)

    def item(self, connection: Connection, message: Item) -> bool:
        """A streaming method gave a value."""
        call = self._by_number.get(message.number)
        if call is None or call.stream is None:
            return False
        stream_item(self._runtime, call, message, connection.peer)
        return True

    def _complete_all(self, call: PendingCall, value: Value) -> None:
        self._by_number.pop(call.number, None)
        if call.stream is not None:
            end_stream(self._runtime, call, value)
            return
        self._runtime.values.reconstruction.finished(call)
        for ref in call.refs:
            self._runtime.values.complete(ref, value)

    def cancel(self, number: int, force: bool, recursive: bool) -> None:
        """Cancel a call that has not finished."""
        call = self._by_number.get(number)
        if call is None:
            return
        call.cancelled = "cancelled"
        if call.actor.withdraw(call):
            hex_id = task_id_bytes(self._runtime.process_id, call.number).hex()
            self._complete_all(call, failures.failed(TaskCancelledError(hex_id, None)))
        elif call.actor.connection is not None:
            self._runtime.post(call.actor.connection, Cancel(number, recursive))

    def is_call(self, object_number: int) -> bool:
        """Whether the object is to come from a call that has not finished."""
        return object_number >> INDEX_BITS in self._by_number

    # ---- ends --------------------------------------------------------------------------------

    def node_lost(self) -> None:
        """The node's process is gone: no call will ever be answered."""
        for client in list(self.clients.known.values()):
            client.reason = "The node process is gone."
            client.dead()

    def flush_released(self) -> None:
        """Tell the node which actors nobody can call any more. Called without the lock."""
        while self.released:
            actor = self.released.popleft()
            if actor and not self._runtime.closed:
                self._runtime.post(self._runtime.node, ActorUnreferenced(actor))
