"""This process's calls of actors: their arguments, results, failures and retries."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any

from phalanx.errors import (
    ActorDiedError,
    ActorOutOfMemoryError,
    ActorPlacementGroupRemoved,
    ActorUnavailableError,
    ActorUnschedulableError,
    PhalanxError,
    StoreFullError,
    TaskCancelledError,
    TaskPlacementGroupRemoved,
)
from phalanx.model.ids import INDEX_BITS, task_id_bytes
from phalanx.model.lifecycle import DEAD, FINISHED
from phalanx.model.lifecycle import FAILED as STATE_FAILED
from phalanx.objects import failures
from phalanx.objects.reference import ObjectRef, make_ref
from phalanx.objects.serialization import CallArguments, pack_call
from phalanx.objects.streams import Stream
from phalanx.observe.task_journal import RunFields, Runs, TaskJournal
from phalanx.owner.actors.client import (
    ENDS_TO_GO_ALONE,
    ActorClient,
    CallBurst,
    CallOptions,
    PendingCall,
)
from phalanx.owner.actors.clients import ActorClients
from phalanx.owner.actors.unavailable_calls import UnavailableCalls
from phalanx.owner.bursts import Unfinished
from phalanx.owner.children import Children, Parent
from phalanx.owner.objects.inputs import failed_input
from phalanx.owner.objects.owned import OwnedObjects
from phalanx.owner.objects.table import NoteMade
from phalanx.owner.peers.connections import Peers
from phalanx.owner.requests import Requests
from phalanx.owner.shell import OwnerShell
from phalanx.owner.tasks.failures import error_kind
from phalanx.owner.transport import Connection
from phalanx.owner.work import CANCELLED
from phalanx.protocol.messages import (
    FAILED,
    Call,
    Cancel,
    Done,
    Failed,
    Item,
    Payload,
    Results,
    Value,
)
from phalanx.protocol.messages import Calls as CallsMessage
from phalanx.protocol.node_messages import ActorUnreferenced
from phalanx.protocol.requests.actors import WatchActor
from phalanx.protocol.wire_errors import code_of

_FLUSH_FROM = 64
"""When more than this number of messages wait on a connection, they are sent immediately."""


class Calls:
    """All calls of one process."""

    def __init__(
        self,
        me: bytes,
        numbers: Iterator[int],
        shell: OwnerShell,
        *,
        peers: Peers,
        requests: Requests,
        objects: OwnedObjects,
        children: Children,
        journal: TaskJournal,
    ) -> None:
        """`numbers` yields numbers of tasks, calls and objects."""
        self._me = me
        self._numbers = numbers
        self._outbox = shell.outbox
        self._node = shell.node
        self._wall = shell.wall
        self._warn = shell.warn
        self._requests = requests
        self._objects = objects.table
        self._inputs = objects.inputs
        self._streams = objects.streams
        self._results = objects.results
        self._unread = objects.unread
        self._children = children
        self._journal = journal
        self.note_made: NoteMade | None = None
        """A function that is called with new references; see `objects.table.NoteMade`."""
        self.clients = ActorClients(peers, self._watch, self._known)
        self.unavailable = UnavailableCalls(self._fail_unavailable)
        self.by_number: Unfinished[PendingCall, CallBurst] = Unfinished()
        """The calls that have not ended, by number."""
        self.growing: set[ActorClient] = set()
        """The actors with calls that wait a moment for more calls, to be sent with them."""
        self.released: deque[bytes] = deque()
        """The actors whose last handle is gone. Finalizers append to this queue."""
        self._is_closed = False

    # ---- actors ------------------------------------------------------------------------------

    def client(self, actor: bytes, watch: bool = True) -> ActorClient:
        """Return the client of an actor. `watch`: whether to ask the head about an actor that this
        process does not know yet.
        """
        found = self.clients.known.get(actor)
        if found is None:
            found = ActorClient(actor, self)
            self.clients.known[actor] = found
            if self._is_closed:
                found.state, found.reason = DEAD, "The node process is gone."
            elif watch:
                self._watch(actor)
        return found

    def _watch(self, actor: bytes) -> None:
        self._requests.notify(WatchActor(actor))

    def _known(self, client: ActorClient) -> None:
        if client.state == DEAD:
            client.hold = None
        self.unavailable.settle(client.actor)

    # ---- calling -----------------------------------------------------------------------------

    def new(
        self,
        client: ActorClient,
        method: str,
        args: Payload,
        inputs: list[ObjectRef[Any]] | None,
        pins: list[Any] | None,
        options: CallOptions,
        keep: Any = None,
    ) -> PendingCall:
        """Return a new call that no other part knows yet.

        `keep`: an object that keeps the actor alive until the call has ended. Any thread may call
        this. Only `submit` needs the owner's lock, so the lock is held for less time.
        """
        returns = options.returns
        number = next(self._numbers)
        base = number << INDEX_BITS
        me = self._me
        if returns in (1, -2):
            refs = [make_ref(me, base + 1)]
        else:
            refs = [make_ref(me, base + i) for i in range(1, returns + 1)]
        call = PendingCall(number, client, method, args, inputs, pins, refs, options)
        call.keep = keep
        if self.note_made is not None:
            self.note_made(refs, "actor call")
        return call

    def call(
        self,
        client: ActorClient,
        method: str,
        args: CallArguments,
        options: CallOptions,
        keep: Any,
        parent: Parent | None,
    ) -> ObjectRef[Any]:
        """Call a method that has one result. The arguments contain no references. Returns the
        reference to the result.
        """
        number = next(self._numbers)
        ref = make_ref(self._me, (number << INDEX_BITS) + 1)
        if self.note_made is not None:
            self.note_made([ref], "actor call")
        queue = client.queue
        if queue.last != number - 1 or not client.takes_bursts:
            packed = pack_call(args) if args else b""
            call = PendingCall(number, client, method, packed, None, None, [ref], options)
            call.keep = keep
            if parent is not None:
                call.parent = parent
                self._children.add(parent, number)
            self.by_number.records[number] = call
            client.submit(call)
            return ref
        if parent is not None:
            self._children.add(parent, number)
        burst = queue.open
        if burst is None or not burst.is_of(method, options, parent):
            burst = CallBurst(self.by_number, number, parent, client, method, options, keep)
            self.by_number.add(burst)
            queue.begin(burst)
        queue.add(burst, number, args, ref, 0.0)
        if client.connection is not None:
            self.growing.add(client)
            if queue.size >= queue.pump_at:
                client.pump()
        return ref

    def pump_growing(self) -> None:
        """Send the calls that were held back so that further calls could be sent with them."""
        while self.growing:
            self.growing.pop().pump()

    def submit(
        self, call: PendingCall, parent: Parent | None, stream: Stream | None = None
    ) -> None:
        """Submit a new call, for the task `parent` if there is one."""
        if stream is not None:
            self._streams.begin(stream, call, call.options.backpressure)
        if parent is not None:
            call.parent = parent
            self._children.add(parent, call.number)
        self.start(call)

    def start(self, call: PendingCall) -> None:
        """Queue the call at its actor. It is sent when its inputs are here."""
        self.by_number[call.number] = call
        if call.inputs is None:
            call.actor.submit(call)
        elif self._inputs.wait(call, self._inputs_ready):
            call.actor.submit(call)
            self._inputs.fetch(call)
        elif not self._fail_with_input(call):
            call.actor.submit(call)

    def _inputs_ready(self, call: PendingCall) -> None:
        if call.number not in self.by_number:
            return
        if failed_input(call.inputs) is not None:
            call.actor.withdraw(call)
            self._fail_with_input(call)
        call.actor.pump()

    def _fail_with_input(self, call: PendingCall) -> bool:
        error = failed_input(call.inputs)
        if error is not None and call.actor.state == DEAD:
            self.fail_call(call, call.actor)
        elif error is not None:
            self._record_failure(call, "ACTOR_DIED")
            self._end(call, failures.of_argument(error, f"{call.actor.name}.{call.method}"))
        return error is not None

    # ---- effects of the actors' clients ------------------------------------------------------

    def send_calls(
        self, actor: ActorClient, calls: list[PendingCall | CallBurst], urgent: bool
    ) -> None:
        """Send these calls to the actor's worker, in order."""
        connection = actor.connection
        assert connection is not None
        for_sending = self._objects.for_sending
        for call in calls:
            if isinstance(call, CallBurst):
                urgent = True
                options = call.options
                connection.post(
                    CallsMessage(
                        call.first,
                        call.method,
                        call.packed(),
                        options.group,
                        actor.actor,
                        options.name,
                    )
                )
                continue
            options = call.options
            inputs = [for_sending(ref) for ref in call.inputs] if call.inputs else []
            connection.post(
                Call(
                    call.number,
                    call.method,
                    call.args,
                    inputs,
                    options.returns,
                    options.group,
                    call.attempt,
                    options.backpressure,
                    actor.actor,
                    options.name,
                )
            )
        if urgent or connection.waiting > _FLUSH_FROM:
            connection.flush()
        else:
            self._outbox.flush_later(connection)

    def fail_call(self, call: PendingCall, actor: ActorClient) -> None:
        """Fail a call whose actor is dead. If it is unknown whether the actor is dead, wait for
        news of the actor first.
        """
        if actor.state == DEAD:
            self._record_failure(call, "ACTOR_DIED")
            self._end(call, failures.failed(_death_of(actor)))
        else:
            self.unavailable.add(call, actor.reason)

    def ended_under(self, call: PendingCall, actor: ActorClient) -> None:
        """Warn when an actor has ended 3, 6, 12, 24 … times while this call ran."""
        power = actor.ends // ENDS_TO_GO_ALONE
        if not power or actor.ends % ENDS_TO_GO_ALONE or power & (power - 1):
            return
        waiting = actor.pending - 1
        behind = f", and {waiting} more wait" if waiting else ""
        self._warn(
            f"The actor {actor.name} has ended {actor.ends} times under its call "
            f"{call.method}, which is tried again{behind}: {actor.reason}."
        )

    def _fail_unavailable(self, call: PendingCall, reason: str) -> None:
        actor = call.actor
        if actor.state == DEAD:
            self.fail_call(call, actor)
            return
        self._record_failure(call, "ACTOR_UNAVAILABLE")
        ran = actor.ended_under
        under = f"It ended while its call {ran} ran. " if ran and ran != call.method else ""
        error = ActorUnavailableError(
            f"The actor {actor.name} is unavailable for now. The actor is restarting: {reason}. "
            f"{under}Call {call.method} may or may not have run.",
            actor.actor.hex(),
        )
        self._end(call, failures.failed(error))

    # ---- events ------------------------------------------------------------------------------

    def done(self, connection: Connection, message: Done) -> bool:
        """Deliver the result of a call. Returns False if this process has no call with that
        number.
        """
        call = self._answered(connection, message)
        if call is None:
            return False
        del self.by_number.records[message.number]
        run = _run(call, FINISHED, message.started, message.ended, connection.peer, "")
        self._journal.add_run(run)
        self._results.deliver(call, call.options.returns, message, connection.peer)
        return True

    def done_together(self, connection: Connection, message: Results, at: int) -> int:
        """Deliver the results in a message, from position `at` on, to calls of one burst. Stop at
        the first result whose call is not in that burst. Returns how many results were delivered: 0
        if the first call has a record of its own.
        """
        first, most = message.first + at, len(message.values) - at
        burst = self.by_number.burst_of(first)
        if burst is None or burst.actor.connection is not connection:
            return 0
        name, about = burst.actor.listed(burst.view(first))
        done = burst.actor.finished_burst(first, most)
        if done is None:
            return 0
        part = message.part(at, len(done))
        runs = Runs(
            first,
            name,
            about,
            connection.peer,
            started=part.started,
            ended=part.ended,
            created=(),
            parent=done.parent,
        )
        self._journal.add_runs(runs)
        self._objects.complete_all(done.refs, part.values)
        return len(done)

    def _answered(self, connection: Connection, message: Done | Failed) -> PendingCall | None:
        """Return the call that a message answers; None unless the message came over the connection
        of that call. The call then no longer counts as unanswered.
        """
        call = self.by_number.get(message.number)
        if call is None or call.actor.connection is not connection:
            return None
        return call.actor.finished(message.number)

    def _record_error(self, call: PendingCall, message: Failed, connection: Connection) -> None:
        """Record a call that ran and failed."""
        error = error_kind(message)
        run = _run(call, STATE_FAILED, message.started, message.ended, connection.peer, error)
        self._journal.add_run((*run[:-1], message.summary))

    def _record_failure(self, call: PendingCall, kind: str) -> None:
        """Record a call that failed without running or answering. `kind`: the kind of failure; a
        cancelled call is recorded as cancelled.
        """
        error = "TASK_CANCELLED" if call.cancelled else kind
        now = self._wall()
        self._journal.add_run(_run(call, STATE_FAILED, now, now, b"", error))

    def failed(self, connection: Connection, message: Failed) -> bool:
        """Handle a call that raised an error or did not run. Returns False if this process has no
        such call.
        """
        call = self._answered(connection, message)
        if call is None:
            return False
        has_begun = message.kind != "cancelled" or message.ended > message.started
        if has_begun and message.kind not in ("lost", "exit"):
            self._record_error(call, message, connection)
        elif message.kind == "cancelled":
            self._record_failure(call, "TASK_CANCELLED")
        if message.kind == "cancelled":
            self._end(call, self._cancelled(call))
        elif message.kind == "exit":
            # The actor is leaving. The news of its end will arrive soon, and then this call fails
            # with the reason.
            call.retries = 0
            call.actor.inflight[call.number] = call
        elif message.kind == "lost":
            self._inputs_lost(call, message)
        elif (
            call.retries != 0
            and message.retriable
            and not call.cancelled
            and failures.is_retriable(call.options.retry_exceptions, message.error)
        ):
            if call.retries > 0:
                call.retries -= 1
            self._results.discard_values(call.number, message.values, connection.peer)
            name = f"Call {call.actor.name}.{call.method}"
            self._unread.retried(name, message.error, call.retries)
            call.actor.retry(call)
        else:
            self._results.deliver_first(call, message.values, connection.peer)
            self._end(call, Value(FAILED, message.error))
        return True

    def _inputs_lost(self, call: PendingCall, message: Failed) -> None:
        """Make a call wait again for arguments that the actor did not find. The call stays ahead of
        calls that were not sent.
        """
        error = self._inputs.lost(call, message.error.decode().split())
        if error is not None:
            self._end(call, error)
        elif self._inputs.wait(call, self._inputs_ready) or not self._fail_with_input(call):
            call.actor.queue.appendleft(call)
            call.actor.pump()
            self._inputs.fetch(call)

    def item(self, connection: Connection, message: Item) -> bool:
        """Add an item that a streaming method has yielded to the stream of its call. Returns False
        if this process has no such call.
        """
        call = self.by_number.get(message.number)
        if call is None or call.stream is None:
            return False
        self._streams.item(call, message, connection.peer)
        return True

    def cancel(self, number: int, recursive: bool) -> None:
        """Cancel a call. Do nothing if the call does not exist or has ended."""
        call = self._own(number)
        if call is None:
            return
        call.cancelled = CANCELLED
        if call.actor.withdraw(call):
            self._record_failure(call, "TASK_CANCELLED")
            self._end(call, self._cancelled(call))
        elif call.actor.connection is not None:
            self._outbox.post(call.actor.connection, Cancel(number, recursive))

    def _own(self, number: int) -> PendingCall | None:
        """Return the record of a call that has not ended. A call in a burst gets its record now."""
        burst = self.by_number.burst_of(number)
        if burst is not None and burst.is_sent:
            burst.actor.inflight.split(burst, number)
        elif burst is not None:
            burst.actor.queue.split(burst, number)
        return self.by_number.records.get(number)

    def is_call(self, object_number: int) -> bool:
        """Whether the object is the result of a call that has not ended."""
        return object_number >> INDEX_BITS in self.by_number

    # ---- ends --------------------------------------------------------------------------------

    def _end(self, call: PendingCall, error: Value) -> None:
        """End the call. This failure becomes the value of its remaining results."""
        self.by_number.pop(call.number, None)
        self._results.fail(call, error)

    def _cancelled(self, call: PendingCall) -> Value:
        task = task_id_bytes(self._me, call.number).hex()
        return failures.failed(TaskCancelledError(task, None))

    def node_lost(self) -> None:
        """Fail all calls, because this node's process has ended and no call will be answered."""
        self._is_closed = True
        for client in list(self.clients.known.values()):
            client.reason = "The node process is gone."
            client.dead()
            self.unavailable.settle(client.actor)

    def record_left(self) -> None:
        """Mark the calls that have not ended as failed in the records for listings, because this
        process leaves its node.
        """
        for call in self.by_number.values():
            self._record_failure(call, "WORKER_DIED")

    def shut_down(self) -> None:
        """Treat every actor that is looked up from now on as dead, because this process leaves its
        node.
        """
        self._is_closed = True

    def flush_released(self) -> None:
        """Tell the node which actors nobody can call any more."""
        while self.released:
            actor = self.released.popleft()
            if actor and not self._is_closed:
                self._node.post(ActorUnreferenced(actor))


def _run(
    call: PendingCall, state: str, started: float, ended: float, worker: bytes, error: str
) -> RunFields:
    name, about = call.actor.listed(call)
    attempt, parent = call.attempt, call.parent
    return (
        call.number,
        name,
        state,
        started,
        ended,
        worker,
        attempt,
        about,
        0.0,
        parent,
        error,
        "",
    )


def _death_of(actor: ActorClient) -> PhalanxError:
    """Return the error that explains why this dead actor answers no call."""
    if actor.code == code_of(ActorUnschedulableError):
        return ActorUnschedulableError(actor.reason)
    if actor.code == code_of(StoreFullError):
        return StoreFullError(actor.reason)
    if actor.code == code_of(TaskPlacementGroupRemoved):
        return ActorPlacementGroupRemoved(actor.reason)
    if actor.code == code_of(ActorOutOfMemoryError):
        return ActorOutOfMemoryError(actor.reason, actor.actor.hex())
    if actor.error:
        cause = failures.load(actor.error)
        return ActorDiedError(f"{actor.reason}\n{cause}", actor.actor.hex(), actor_init_failed=True)
    return ActorDiedError(actor.reason or "The actor died.", actor.actor.hex())
