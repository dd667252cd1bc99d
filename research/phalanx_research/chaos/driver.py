"""A simulated driver: an owner with a program that submits work."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from phalanx.errors import StoreFullError
from phalanx.model.ids import GangId
from phalanx.objects.reference import ObjectRef
from phalanx.objects.streams import Stream
from phalanx.owner.actors.client import ActorClient, CallOptions
from phalanx.owner.tasks.records import Template
from phalanx.protocol.actor_creation import Creation
from phalanx.protocol.asking import Ask, Reply
from phalanx.protocol.messages import INLINE, Payload, Value
from phalanx.protocol.node_messages import Stop
from phalanx.protocol.requests.actors import ActorSpec
from phalanx.protocol.requests.node import RegisterDriver
from phalanx.protocol.requests.request import encode_request, read_result
from phalanx_research.chaos.history import History
from phalanx_research.chaos.hosts import Host
from phalanx_research.chaos.network import End, Message, Network
from phalanx_research.chaos.process import SimProcess
from phalanx_research.chaos.promises import Promises
from phalanx_research.chaos.work import Label, Work

Refs = list[ObjectRef[Any]]
_TRY_AGAIN_S = 1.0
"""Seconds after which a program tries again when the head has refused its request."""


class SimDriver(SimProcess):
    """One driver's process on a node."""

    def __init__(
        self,
        host: Host,
        prefix: bytes,
        network: Network,
        promises: Promises,
        history: History,
        name: str,
    ) -> None:
        super().__init__(host, prefix, network, promises, name, "driver")
        self._history = history
        self.on_ready: Callable[[], None] = lambda: None
        self._settled: dict[Any, CallOptions] = {}
        """The options of calls that were made. Calls with the same options share bursts."""
        self.dial_node()
        self._register()

    def _register(self) -> None:
        register = RegisterDriver(path=[], directory="", namespace=self.name, log_to_driver=False)
        self.node_end.post(Ask(1, register.kind, encode_request(register)))

    def on_message(self, end: End, message: Message) -> None:
        """Handle a message. The node's first answer has this driver's id."""
        if self.process_id or not self.is_alive:
            super().on_message(end, message)
        elif isinstance(message, Reply):
            try:
                answer = read_result(RegisterDriver, message.result, message.error)
            except StoreFullError:
                self.host.later(_TRY_AGAIN_S, self._register)
                return
            self._history.driver_joined(answer.process, self.name)
            self.join(answer.process)
            self.on_ready()
            self.settle()

    def gone(self) -> None:
        """End the driver's work."""
        if self.process_id:
            super().gone()

    def leave(self) -> None:
        """End the program, and tell the node."""
        self.node_end.post(Stop("the program ended"))
        self.die("the program ended")

    # ---- requests of programs ----------------------------------------------------------------

    def submit(
        self,
        template: Template,
        work: Work,
        inputs: Refs | None = None,
        nested: Refs | None = None,
    ) -> tuple[Refs, Stream | None]:
        """Submit a task. Returns its references, or its stream. `inputs` are references as
        arguments; `nested` are references inside an argument.
        """
        args, pins = self.arguments(work, nested)
        if template.goes_in_bursts and inputs is None and isinstance(args, bytes):
            refs = [self.owner.tasks.call(template, args, None)]
            self.promises.task_promised(self, template, work, refs, None, None)
            return refs, None
        stream = Stream(self.process_id) if template.returns < 0 else None
        task = self.owner.tasks.new(template, args, inputs, pins)
        self.owner.tasks.submit(task, None, stream)
        self.promises.task_promised(self, template, work, task.refs, stream, inputs)
        return task.refs, stream

    def arguments(self, work: Work, nested: Refs | None) -> tuple[Payload, list[Any] | None]:
        """Return an argument that contains these references, as (payload, pins)."""
        data = msgspec.msgpack.encode(work)
        if not nested:
            return data, None
        for ref in nested:
            self.owner.references.export(ref)
        return Value(INLINE, data, [], [(r._owner, r._number) for r in nested]), [None, nested]

    def put(self, is_large: bool) -> ObjectRef[Any]:
        """Put a new object of this driver."""
        number = self.owner.next_object()
        label = Label(self.process_id, number, self.process_id).encode()
        if not is_large:
            return self.owner.objects.put(number, label, None, None)
        value = self.files.write(label)
        hold = self.files.hold(value.data.decode(), value.size)
        return self.owner.objects.put(number, value, hold, None)

    def create(self, creation: Creation, spec: ActorSpec) -> ActorClient:
        """Create an actor."""
        client = self.owner.actors.begin(spec.actor, creation, None, None)
        self.owner.actors.register_when_ready(client, creation, None, spec)
        return client

    def call(
        self,
        client: ActorClient,
        work: Work,
        retries: int,
        nested: Refs | None = None,
        stream: Stream | None = None,
        **options: Any,
    ) -> Refs:
        """Call an actor; return the call's references."""
        args, pins = self.arguments(work, nested)
        key = (retries, tuple(sorted(options.items())))
        settled = self._settled.get(key)
        if settled is None:
            settled = self._settled[key] = CallOptions(retries=retries, **options)
        if settled.returns == 1 and isinstance(args, bytes):
            refs = [self.owner.calls.call(client, "work", args, settled, None, None)]
            self.promises.call_promised(self, client, settled, refs[0]._task, work, refs[0])
            return refs
        call = self.owner.calls.new(client, "work", args, None, pins, settled)
        self.owner.calls.submit(call, None, stream)
        first = call.stream.completion if call.stream is not None else call.refs[0]
        self.promises.call_promised(self, client, settled, call.number, work, first)
        return call.refs

    def start_gang(
        self, group: GangId, templates: list[Template], min_members: int, work: Work
    ) -> None:
        """Start a gang of tasks in a group that is already created."""
        args, _ = self.arguments(work, None)
        tasks = self.owner.gangs.start(group, templates, min_members, args, None, None)
        self.promises.gang_promised(self, group, min_members, tasks, work)
