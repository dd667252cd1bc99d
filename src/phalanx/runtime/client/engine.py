"""The engine of a program that has no node: its work belongs to a driver process on the cluster.

It is the engine of the runtime (`runtime.driver.engine`), except that the owner is in the driver's
process. The engine reads options, pickles functions and arguments, and names tasks and objects. The
driver does the rest, as it does for its own work.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any, cast

import msgspec

from phalanx.errors import SystemFailureError
from phalanx.model.rows.explanation import Explanation
from phalanx.objects import failures, reference
from phalanx.objects.reference import ObjectRef, forget_process
from phalanx.objects.streams import ObjectRefGenerator
from phalanx.protocol import client_messages as m
from phalanx.protocol.actor_creation import Creation
from phalanx.protocol.requests.actors import ActorSpec, ExplainActor
from phalanx.protocol.requests.gangs import Explain
from phalanx.protocol.requests.node import ExplainTask
from phalanx.protocol.requests.request import Request, decode_request
from phalanx.runtime.client.conversation import Conversation, NotYetError
from phalanx.runtime.client.references import ClientReferences
from phalanx.runtime.client.requests import ClientRequests
from phalanx.runtime.client.waiting import ClientWaiting
from phalanx.runtime.client.work import ClientActor, ClientOwner, ClientPacker
from phalanx.runtime.driver import handles
from phalanx.runtime.driver.creation import ActorMaker
from phalanx.runtime.driver.engine import RuntimeEngine
from phalanx.runtime.driver.handles import EmbeddedHandle
from phalanx.runtime.driver.job_settings import JobSettings
from phalanx.runtime.driver.runtime import Runtime
from phalanx.runtime.engine.definitions import ActorDefinition
from phalanx.runtime.engine.interface import Output

LEAVE_S = 10.0
_EXPLAINED: dict[int, type[Request[Explanation]]] = {
    one.kind: one for one in (Explain, ExplainTask, ExplainActor)
}


class ClientCaller(handles.Caller):
    """Calls methods of actors, for any thread of a client."""

    def handle_of(
        self, actor: bytes, shape: Any, ref: ObjectRef[Any] | None
    ) -> EmbeddedHandle[Any]:
        """Return a handle of an actor whose id has come to this process."""
        client: Any = ClientActor(actor, cast(Any, self.calls))
        client.limit = shape.max_pending_calls
        return EmbeddedHandle(client, shape, ref)


class ClientActorMaker(ActorMaker):
    """Creates actors for any thread of a client."""

    def create(
        self,
        definition: ActorDefinition,
        options: Mapping[str, Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> EmbeddedHandle[Any]:
        """Create an actor through the driver, as `ActorMaker.create` does."""
        handle = super().create(definition, options, args, kwargs)
        client: Any = handle._client
        client.limit = handle._shape.max_pending_calls
        return handle

    def _register_named(
        self,
        client: Any,
        creation: Creation,
        inputs: list[ObjectRef[Any]] | None,
        spec: ActorSpec,
        get_if_exists: bool,
        shape: Any,
        ref: ObjectRef[Any] | None,
    ) -> EmbeddedHandle[Any]:
        registration: Any = self._registration
        known = registration.register(creation, inputs, spec, get_if_exists)
        if not known.existed:
            return EmbeddedHandle(client, shape, ref)
        found = msgspec.msgpack.decode(known.handle, type=type(shape))
        return self._caller.handle_of(known.actor, found, None)


class ClientRuntime:
    """The parts of a client. They have the names of the corresponding parts of a driver's runtime,
    so that the same code can use both.
    """

    kind = "driver"

    def __init__(self, conversation: Conversation, welcome: m.Welcome) -> None:
        self.conversation = conversation
        self.process_id = me = welcome.process
        self.session = SimpleNamespace(
            name=welcome.session_name, directory=welcome.session_directory
        )
        self.lock = threading.RLock()
        self.hooks = ClientReferences(me, conversation)
        self.owner = ClientOwner(self.hooks, conversation)
        self.packer = ClientPacker()
        self.requests = ClientRequests(conversation)
        self.waiting = ClientWaiting(self.hooks, conversation)
        self.reactor = SimpleNamespace(kick=_nothing)
        self.caller = ClientCaller(
            me,
            self.lock,
            cast(Any, self.owner.calls),
            self.packer.pack,
            cast(Any, self.hooks),
            _nothing,
        )
        conversation.before_sending = self.hooks.left_streams
        conversation.on_lost = self._lost

    def open(self) -> None:
        """Make references and handles of this process use this client."""
        reference.process.hooks = self.hooks
        handles.process.caller = self.caller

    @property
    def is_closed(self) -> bool:
        """Whether the driver is lost or was left."""
        return bool(self.conversation.lost_because)

    def flush(self) -> None:
        """Do nothing: no message of a client waits for a flush."""

    def leave(self) -> None:
        """Remove this client from the process."""
        if reference.process.hooks is self.hooks:
            reference.process.hooks = None
        if handles.process.caller is self.caller:
            handles.process.caller = None
        forget_process(self.process_id)

    def leave_behind(self) -> None:
        """Leave the client in a forked child, which has none of its threads."""
        self.conversation.lost_because = "this process was forked from a client"
        self.leave()

    def _lost(self, reason: str) -> None:
        self.hooks.fail_all(failures.failed(SystemFailureError(reason)))


def _nothing() -> None:
    """Do nothing."""


class ClientEngine(RuntimeEngine):
    """The engine of a client."""

    is_client = True

    def __init__(
        self,
        conversation: Conversation,
        welcome: m.Welcome,
        *,
        address: str,
        job: tuple[str, int],
    ) -> None:
        """`address`: the address by which the program has connected. `job`: the queue and the
        priority of its work.
        """
        runtime = ClientRuntime(conversation, welcome)
        settings = JobSettings(cast(Any, runtime.requests), welcome.namespace, *job)
        super().__init__(cast(Runtime, runtime), settings, node_id=welcome.node_id, address=address)
        self._client = runtime
        self._conversation = conversation
        self._actors = ClientActorMaker(
            runtime.process_id,
            runtime.lock,
            cast(Any, runtime.owner.actors),
            cast(Any, runtime.requests),
            cast(Any, runtime.waiting),
            cast(Any, runtime.packer.pack),
            settings,
            runtime.caller,
        )
        runtime.open()

    def hear(self, output: Output) -> None:
        """Show, through `output`, what workers print, and warnings."""
        heard = self._conversation.heard
        heard[m.Printed] = lambda message: output.log(message.line)
        heard[m.Warned] = lambda message: output.warn(message.text)

    def stop(self) -> None:
        """End all work of the client, and its driver."""
        self._client.leave()
        if not self._client.is_closed:
            # The driver does not wait for ever.
            with contextlib.suppress(NotYetError, ConnectionError):
                self._conversation.ask(m.Leave).result(LEAVE_S)
        self._conversation.lose("phalanx.shutdown() has ended this client")
        self._conversation.stop()

    def facts(self) -> dict[str, Any]:
        """Return the address of the cluster, and the driver's node and session."""
        return {
            "address": self.address,
            "gcs_address": self.address,
            "node_id": self._node_id,
            "session_dir": self._client.session.directory,
            "session_name": self._client.session.name,
            "webui_url": "",
        }

    def cluster_address(self) -> str:
        """Return the address by which the program has connected."""
        return self.address

    def cancel(
        self, ref: ObjectRef[Any] | ObjectRefGenerator[Any], force: bool, recursive: bool
    ) -> None:
        """Cancel the task that makes this object or fills this generator."""
        found = ref.completed() if isinstance(ref, ObjectRefGenerator) else ref
        name = (found._owner, found._number)
        self._conversation.ask(lambda token: m.CancelWork(token, name, force, recursive)).result()

    def withdraw(self, ref: ObjectRef[Any]) -> bool:
        """Take back the task that makes this object, if no worker has the task yet. Returns whether
        the task was taken back.
        """
        name = (ref._owner, ref._number)
        answer = self._conversation.ask(lambda token: m.Withdraw(token, name)).result()
        return bool(msgspec.msgpack.decode(answer))

    def kill(self, actor: EmbeddedHandle[Any], no_restart: bool) -> None:
        """End an actor without waiting for its calls."""
        id_bytes = actor._client.actor
        self._conversation.ask(lambda token: m.KillNow(token, id_bytes, no_restart)).result()

    def why_pending(
        self, what: ObjectRef[Any] | EmbeddedHandle[Any]
    ) -> Request[Explanation] | None:
        """Return the request that asks why an actor waits, or why the task that makes an object
        waits.
        """
        if isinstance(what, EmbeddedHandle):
            return ExplainActor(what._client.actor.hex())
        name = (what._owner, what._number)
        answer = self._conversation.ask(lambda token: m.Inquire(token, "waits", name)).result()
        found = msgspec.msgpack.decode(answer, type=tuple[int, msgspec.Raw] | None)
        if found is None:
            return None
        kind, body = found
        return decode_request(_EXPLAINED[kind], body)

    def timeline(self) -> list[dict[str, Any]]:
        """Return the finished tasks of the client's work."""
        return self._inquired("timeline")

    def cluster_events(self) -> list[dict[str, Any]]:
        """Return the events that nodes and owners of tasks have recorded about each other."""
        return self._inquired("events")

    def _inquired(self, what: str) -> list[dict[str, Any]]:
        answer = self._conversation.ask(lambda token: m.Inquire(token, what)).result()
        return msgspec.msgpack.decode(answer, type=list[dict[str, Any]])
