"""The driver's side of tasks, calls, actors and values that its client submits.

All of these arrive packed. This module opens no pickles except those of exception classes after
which a task is tried again: the owner of a task compares these classes with the errors of its
workers.
"""

from __future__ import annotations

import pickle
from typing import Any

import msgspec

from phalanx.errors import PendingCallsLimitExceeded, PhalanxError
from phalanx.model.ids import INDEX_BITS, GangId, GroupId
from phalanx.objects import failures
from phalanx.objects.reference import ObjectRef, make_ref
from phalanx.objects.serialization import Pickled
from phalanx.objects.streams import Stream
from phalanx.owner.actors.client import CallOptions, PendingCall
from phalanx.owner.actors.registration import ActorHold
from phalanx.owner.tasks.records import ClassKey, FunctionRecord, PendingTask, Template
from phalanx.protocol.client_messages import (
    CreateActor,
    DefineFunction,
    DefineTemplate,
    PutObject,
    SubmitCall,
    SubmitGang,
    SubmitTask,
)
from phalanx.protocol.messages import FAILED, Payload, Value
from phalanx.protocol.requests.actors import KnownActor
from phalanx.runtime.client.held import HeldReferences
from phalanx.runtime.driver.runtime import Runtime


class Submitting:
    """Submits what comes from the client."""

    def __init__(self, runtime: Runtime, held: HeldReferences) -> None:
        self._runtime = runtime
        self._owner = runtime.owner
        self._me = runtime.process_id
        self._held = held
        self._functions: dict[bytes, FunctionRecord] = {}
        self._templates: dict[int, Template] = {}
        self._classes: dict[bytes, bytes] = {}
        """The classes of actors as pickles, by key. A client sends each once."""

    # ---- tasks -------------------------------------------------------------------------------

    def define_function(self, message: DefineFunction) -> None:
        """Store a function for the templates that refer to it."""
        self._functions[message.key] = FunctionRecord(
            message.key, message.name, message.pickle, message.max_calls
        )

    def define_template(self, message: DefineTemplate) -> None:
        """Store a function with its options, for the tasks that refer to this template."""
        scheduling = message.scheduling
        self._templates[message.number] = Template(
            function=self._functions[message.function],
            key=ClassKey(
                **{name: getattr(scheduling, name) for name in scheduling.__struct_fields__}
            ),
            name=message.name,
            returns=message.returns,
            max_retries=message.max_retries,
            retry_exceptions=_exceptions(message.retry_exceptions),
            timeout_s=message.timeout_s,
            backpressure=message.backpressure,
            about=message.about,
        )

    def task(self, message: SubmitTask) -> Stream | None:
        """Run a task. Returns the stream of results that the client reads; None if the results are
        no stream.
        """
        template = self._templates[message.template]
        try:
            task = self._new_task(message.number, template, message)
        except PhalanxError as error:  # there is no room for the arguments
            return self._failed(message.number, template.returns, error)
        stream = Stream(self._me) if template.returns < 0 else None
        with self._runtime.hooks.lock_without_callbacks():
            self._owner.tasks.submit(task, None, stream)
        stream = stream if template.returns == -1 else None
        self._keep(task.refs, stream)
        if self._owner.tasks.machine.dirty:
            self._runtime.reactor.kick()
        return stream

    def gang(self, message: SubmitGang) -> None:
        """Run a gang of tasks."""
        works = list(zip(message.numbers, message.templates, strict=True))
        try:
            tasks = [
                self._new_task(number, self._templates[template], message)
                for number, template in works
            ]
        except PhalanxError as error:
            for number, template in works:
                self._failed(number, self._templates[template].returns, error)
            return
        with self._runtime.lock:
            self._owner.gangs.begin(GangId(GroupId(message.group)), tasks, message.min_members)
        for task in tasks:
            self._keep(task.refs, None)
        self._runtime.flush()

    def _new_task(
        self, number: int, template: Template, message: SubmitTask | SubmitGang
    ) -> PendingTask:
        args, inputs, pins = self._arguments(message.args, message.inputs)
        refs = self._results(number, template.returns)
        return PendingTask(number, template, args, inputs, pins, refs)

    # ---- actors ------------------------------------------------------------------------------

    def call(self, message: SubmitCall) -> Stream | None:
        """Call a method. Returns the stream of results that the client reads; None if the results
        are no stream.
        """
        try:
            args, inputs, pins = self._arguments(message.args, message.inputs)
        except PhalanxError as error:
            return self._failed(message.number, message.returns, error)
        refs = self._results(message.number, message.returns)
        options = CallOptions(
            returns=message.returns,
            retries=message.retries,
            retry_exceptions=_exceptions(message.retry_exceptions),
            group=message.group,
            backpressure=message.backpressure,
            name=message.name,
            is_listed=message.is_listed,
        )
        stream = Stream(self._me) if message.returns < 0 else None
        with self._runtime.hooks.lock_without_callbacks():
            client = self._owner.calls.client(message.actor)
            client.name = client.name or message.actor_name
            client.out_of_order = message.out_of_order
            client.concurrency = message.concurrency
            if 0 < message.limit <= client.pending:
                late = PendingCallsLimitExceeded(
                    f"The actor {client.name} already has {client.pending} pending calls from this "
                    f"handle; max_pending_calls={message.limit}. Wait for some of them first."
                )
                return self._failed(message.number, message.returns, late)
            call = PendingCall(
                message.number, client, message.method, args, inputs, pins, refs, options
            )
            call.keep = None if message.keep is None else self._held.of(message.keep)
            self._keep(refs, None)
            self._owner.calls.submit(call, None, stream)
        stream = stream if message.returns == -1 else None
        self._keep((), stream)
        self._runtime.reactor.kick()
        return stream

    def create(self, message: CreateActor) -> KnownActor:
        """Create an actor. If the message has a token, wait until the actor's name is registered.
        Raises ActorAlreadyExistsError.
        """
        spec, creation, runtime = message.spec, message.creation, self._runtime
        registration = self._owner.actors
        pickled = self._classes.setdefault(creation.class_key, creation.class_pickle)
        creation.class_pickle = pickled
        try:
            creation.args, inputs, pins = self._arguments(creation.args, message.inputs)
        except PhalanxError as error:
            with runtime.hooks.lock_without_callbacks():
                client = self._owner.calls.client(spec.actor, watch=False)
                client.reason = f"The actor died before it was made: {error}"
                client.dead()
            raise
        if message.hold:
            ref = make_ref(self._me, message.hold)
            ref._value = failures.NONE
            ref._hold = ActorHold(spec.actor, self._owner.calls.released)
            self._held.hold(ref)
        with runtime.lock:
            client = registration.begin(spec.actor, creation, inputs, pins)
            if not message.token:
                registration.register_when_ready(client, creation, inputs, spec)
                runtime.reactor.kick()
                return KnownActor(spec.actor, spec.handle, existed=False)
        for waiting in inputs or ():
            runtime.waiting.wait_for(waiting)
        with runtime.lock:
            registration.say_released()
            request = registration.build_request(spec, creation, inputs, message.get_if_exists)
        known = runtime.requests.ask(request)
        if known.existed and message.hold:
            self._held.of((self._me, message.hold))._hold.actor = b""
            with runtime.lock:
                registration.use_existing(client, known.actor)
        return known

    def _failed(self, number: int, returns: int, error: PhalanxError) -> Stream | None:
        """Complete the results of work that cannot be submitted: each of them is this error."""
        value = failures.failed(error)
        refs = self._results(number, returns)
        stream = Stream(self._me) if returns == -1 else None
        with self._runtime.hooks.lock_without_callbacks():
            for ref in refs:
                self._owner.objects.complete(ref, value)
            if stream is not None:
                stream.number, stream.first = number, number << INDEX_BITS
                stream.completion = make_ref(self._me, stream.first)
                # The error is the stream's only item, and the result of its completion.
                for ref in (stream.slot(1), stream.completion):
                    self._owner.objects.complete(ref, value)
                stream.arrived(1)
                stream.end()
        self._keep(refs, stream)
        return stream

    # ---- values ------------------------------------------------------------------------------

    def put(self, message: PutObject) -> None:
        """Store a value."""
        value = message.value
        if type(value) is Value and value.kind == FAILED:
            ref = self._owner.objects.put(message.number, value, None, None)
        else:
            try:
                payload, hold, refs = self._stored(value)
            except PhalanxError as error:  # there is no room
                payload, hold, refs = failures.failed(error), None, None
            ref = self._owner.objects.put(message.number, payload, hold, refs)
        self._held.hold(ref)

    def _stored(self, value: Payload) -> tuple[Payload, Any, list[ObjectRef[Any]] | None]:
        """Return a value of the client in the form in which this process packs its own values."""
        packer = self._runtime.packer
        if type(value) is bytes:
            if len(value) <= packer.inline_bytes:
                return value, None, None
            return packer.pack_parts(Pickled(value, [], []))
        assert type(value) is Value
        refs = self._held.leaving(value.refs)
        buffers = [pickle.PickleBuffer(one) for one in value.buffers]
        return packer.pack_parts(Pickled(value.data, buffers, refs))

    def _arguments(
        self, args: Payload, names: list[tuple[bytes, int]]
    ) -> tuple[Payload, list[ObjectRef[Any]] | None, list[Any] | None]:
        inputs = [self._held.of(name) for name in names] or None
        payload, hold, refs = self._stored(args)
        if hold is None and refs is None:
            return payload, inputs, None
        if hold is not None:
            hold.seen = True  # the called function may keep the memory that it maps
        return payload, inputs, [hold, refs]

    def _results(self, number: int, returns: int) -> list[ObjectRef[Any]]:
        count = 1 if returns == -2 else returns
        return [make_ref(self._me, (number << INDEX_BITS) + i) for i in range(1, count + 1)]

    def _keep(self, refs: Any, stream: Stream | None) -> None:
        """Hold results for the client, which has chosen their names."""
        for ref in refs:
            self._held.hold(ref)
        if stream is not None and stream.completion is not None:
            self._held.hold(stream.completion)


def _exceptions(pickled: bytes) -> Any:
    return pickle.loads(pickled) if pickled else False  # noqa: S301  (from this driver's client)


def raw(result: Any) -> msgspec.Raw:
    """Return a result as msgpack."""
    return msgspec.Raw(msgspec.msgpack.encode(result))
