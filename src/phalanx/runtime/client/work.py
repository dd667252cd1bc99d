"""The client's side of tasks, calls, actors and values: it names them and sends them to its driver.

A driver's engine calls the machines of an owner. A client's engine calls the classes here instead,
so these have the same methods.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import msgspec

from phalanx.model.ids import INDEX_BITS, GangId
from phalanx.model.lifecycle import PENDING_CREATION
from phalanx.objects import failures
from phalanx.objects.reference import ObjectRef
from phalanx.objects.serialization import (
    CallArguments,
    Pickled,
    dumps_whole,
    pack_call,
    serialize,
)
from phalanx.objects.streams import Stream
from phalanx.owner.actors.client import CallOptions
from phalanx.owner.tasks.records import Template
from phalanx.protocol import client_messages as m
from phalanx.protocol.actor_creation import Creation
from phalanx.protocol.messages import INLINE, Payload, Value
from phalanx.protocol.requests.actors import ActorSpec, KnownActor
from phalanx.runtime.client.conversation import Conversation
from phalanx.runtime.client.references import ClientReferences

_REMEMBERED = 1_000

Packed = tuple[Payload, None, list[ObjectRef[Any]] | None]


class ClientPacker:
    """Makes payloads from values. A payload of a client has no file."""

    def pack(self, value: Any) -> Packed:
        """Pack a value for sending. Raises the errors of pickling the value."""
        pickled = serialize(value)
        if type(pickled) is bytes:
            return pickled, None, None
        assert type(pickled) is Pickled
        refs = [(ref._owner, ref._number) for ref in pickled.refs]
        buffers = [bytes(one.raw()) for one in pickled.buffers]
        return Value(INLINE, pickled.data, buffers, refs), None, pickled.refs or None


def names_of(refs: list[ObjectRef[Any]] | None) -> list[m.Name]:
    """Return the names of references."""
    return [(ref._owner, ref._number) for ref in refs or ()]


def _exceptions(wanted: Any) -> bytes:
    return b"" if wanted is False or wanted is None else dumps_whole(wanted)


class Work(SimpleNamespace):
    """A task or call that has a name and was not sent yet. It keeps the objects to which its
    arguments refer.
    """

    number: int
    refs: list[ObjectRef[Any]]


class ClientTasks:
    """The tasks of a client."""

    def __init__(
        self, references: ClientReferences, conversation: Conversation, numbers: Iterator[int]
    ) -> None:
        self._references = references
        self._conversation = conversation
        self._numbers = numbers
        self._lock = threading.Lock()
        self._functions: set[bytes] = set()
        self._known: dict[bytes, int] = {}
        """The numbers of the templates that the driver has, by the templates' encoded contents."""
        self._latest: dict[int, tuple[Template, int]] = {}
        """Templates that were used lately, each with its number, by the templates' `id()`."""
        self.machine = SimpleNamespace(dirty=())

    def new(
        self,
        template: Template,
        args: Payload,
        inputs: list[ObjectRef[Any]] | None,
        pins: list[Any] | None,
    ) -> Work:
        """Return a new task that the driver does not know yet."""
        number = next(self._numbers)
        refs = results(self._references, number, template.returns)
        return Work(
            number=number, template=template, args=args, inputs=inputs, pins=pins, refs=refs
        )

    def call(self, template: Template, args: CallArguments, parent: Any) -> ObjectRef[Any]:
        """Run a function whose template `goes_in_bursts`. Returns the reference to the result."""
        task = self.new(template, pack_call(args), None, None)
        self.submit(task)
        return task.refs[0]

    def submit(self, task: Work, parent: Any = None, stream: Stream | None = None) -> None:
        """Send a new task to the driver."""
        template = self._number_of(task.template)
        if stream is not None and task.template.returns == -1:
            self._references.begin(stream, task.number)
        self._conversation.tell(
            m.SubmitTask(task.number, template, task.args, names_of(task.inputs))
        )

    def start(
        self,
        group: GangId,
        templates: list[Template],
        min_members: int,
        args: Payload,
        inputs: list[ObjectRef[Any]] | None,
        pins: list[Any] | None,
    ) -> list[Work]:
        """Send the tasks of a gang to the driver."""
        tasks = [self.new(one, args, inputs, pins) for one in templates]
        self._conversation.tell(
            m.SubmitGang(
                group,
                [task.number for task in tasks],
                [self._number_of(one) for one in templates],
                min_members,
                args,
                names_of(inputs),
            )
        )
        return tasks

    def _number_of(self, template: Template) -> int:
        """Return the number under which the driver knows a template. A new template is sent
        first.
        """
        latest, number = self._latest.get(id(template), (None, 0))
        if latest is template:
            return number
        with self._lock:
            defined = _definition(template, 0)
            content = m.encode(defined)
            if content not in self._known:
                number = len(self._known) + 1
                messages: list[Any] = [msgspec.structs.replace(defined, number=number)]
                function = template.function
                if function.key not in self._functions:
                    messages.insert(
                        0,
                        m.DefineFunction(
                            function.key, function.name, function.pickle, function.max_calls
                        ),
                    )
                self._conversation.tell(*messages)
                self._functions.add(function.key)
                self._known[content] = number
            if len(self._latest) >= _REMEMBERED:
                self._latest.clear()
            self._latest[id(template)] = template, self._known[content]
            return self._known[content]


def _definition(template: Template, number: int) -> m.DefineTemplate:
    fields = m.ClassFields.__struct_fields__
    return m.DefineTemplate(
        number,
        template.function.key,
        m.ClassFields(*(getattr(template.key, name) for name in fields)),
        template.name,
        template.returns,
        template.max_retries,
        _exceptions(template.retry_exceptions),
        template.timeout_s,
        template.backpressure,
        template.about,
    )


def results(references: ClientReferences, number: int, returns: int) -> list[ObjectRef[Any]]:
    """Return new references to the results of a task or call."""
    count = 1 if returns in (1, -2) else max(returns, 0)
    return [references.made(number, index) for index in range(1, count + 1)]


class ClientActor:
    """An actor as its handles in a client see it."""

    pending = 0
    """Always 0 here, because the driver counts the calls that have no result."""

    def __init__(self, actor: bytes, effects: ClientCalls) -> None:
        self.actor = actor
        self.effects = effects
        self.name = ""
        self.state = PENDING_CREATION
        self.reason = ""
        self.out_of_order = False
        self.concurrency = 0
        self.limit = 0

    def dead(self) -> None:
        """Do nothing: the driver fails the calls."""


class ClientCalls:
    """The calls of actors by a client."""

    growing = ()
    """Always empty here: no call of a client waits to be sent together with others."""

    def __init__(
        self, references: ClientReferences, conversation: Conversation, numbers: Iterator[int]
    ) -> None:
        self._references = references
        self._conversation = conversation
        self._numbers = numbers

    def client(self, actor: bytes, watch: bool = True) -> ClientActor:
        """Return a view of an actor."""
        return ClientActor(actor, self)

    def new(
        self,
        client: ClientActor,
        method: str,
        args: Payload,
        inputs: list[ObjectRef[Any]] | None,
        pins: list[Any] | None,
        options: CallOptions,
        keep: ObjectRef[Any] | None = None,
    ) -> Work:
        """Return a new call that the driver does not know yet; see `owner.actors.calls`."""
        number = next(self._numbers)
        refs = results(self._references, number, options.returns)
        return Work(
            number=number, client=client, method=method, args=args, inputs=inputs, pins=pins,
            refs=refs, keep=keep, options=options,
        )  # fmt: skip

    def call(
        self,
        client: ClientActor,
        method: str,
        args: CallArguments,
        options: CallOptions,
        keep: ObjectRef[Any] | None,
        parent: Any,
    ) -> ObjectRef[Any]:
        """Call a method that has one result. Returns the reference to the result."""
        call = self.new(client, method, pack_call(args), None, None, options, keep)
        self.submit(call, parent)
        return call.refs[0]

    def submit(self, call: Work, parent: Any, stream: Stream | None = None) -> None:
        """Send a new call to the driver."""
        options: CallOptions = call.options
        if stream is not None and options.returns == -1:
            self._references.begin(stream, call.number)
        client = call.client
        keep = None if call.keep is None else (call.keep._owner, call.keep._number)
        self._conversation.tell(
            m.SubmitCall(
                call.number, client.actor, client.name, call.method, call.args,
                names_of(call.inputs), options.returns, options.retries,
                _exceptions(options.retry_exceptions), options.group, options.backpressure,
                options.name, options.is_listed, client.out_of_order, client.concurrency, keep,
                client.limit,
            )
        )  # fmt: skip


class ClientRegistration:
    """The actors that a client creates."""

    def __init__(
        self,
        references: ClientReferences,
        conversation: Conversation,
        calls: ClientCalls,
        numbers: Iterator[int],
    ) -> None:
        self._references = references
        self._conversation = conversation
        self._calls = calls
        self._numbers = numbers
        self._lock = threading.Lock()
        self._holds: dict[bytes, int] = {}
        self._classes: set[bytes] = set()

    def reference(self, actor: bytes) -> ObjectRef[Any]:
        """Return the reference that keeps an actor alive while it is held."""
        ref = self._references.made(next(self._numbers), 0)
        ref._value = failures.NONE
        self._holds[actor] = ref._number
        return ref

    def begin(self, actor: bytes, creation: Creation, inputs: Any, pins: Any) -> ClientActor:
        """Return a view of an actor that will be created."""
        return self._calls.client(actor)

    def say_released(self) -> None:
        """Report the dropped references, so that a released actor is not found by its name."""
        self._conversation.tell()

    def register_when_ready(
        self, client: ClientActor, creation: Creation, inputs: Any, spec: ActorSpec
    ) -> None:
        """Send a new actor to the driver."""
        with self._lock:
            self._conversation.tell(self._creation(creation, inputs, spec, 0, False))

    def register(
        self, creation: Creation, inputs: Any, spec: ActorSpec, get_if_exists: bool
    ) -> KnownActor:
        """Send a new actor to the driver, and wait until its name is registered."""
        with self._lock:  # a class goes first with its first actor
            expected = self._conversation.ask(
                lambda token: self._creation(creation, inputs, spec, token, get_if_exists)
            )
        return msgspec.msgpack.decode(expected.result(), type=KnownActor)

    def _creation(
        self, creation: Creation, inputs: Any, spec: ActorSpec, token: int, get_if_exists: bool
    ) -> m.CreateActor:
        if creation.class_key in self._classes:
            creation.class_pickle = b""
        self._classes.add(creation.class_key)
        hold = self._holds.pop(spec.actor, 0)
        return m.CreateActor(spec, creation, names_of(inputs), hold, token, get_if_exists)


class ClientObjects:
    """The values that a client stores."""

    def __init__(self, references: ClientReferences, conversation: Conversation) -> None:
        self._references = references
        self._conversation = conversation

    def put(self, number: int, payload: Payload, hold: None, inner: Any) -> ObjectRef[Any]:
        """Send a value to the driver. Returns its reference."""
        ref = self._references.made(number >> INDEX_BITS, number & ((1 << INDEX_BITS) - 1))
        self._conversation.tell(m.PutObject(ref._number, payload))
        return ref


class ClientOwner:
    """The classes of this module together. They have the names of the corresponding parts of an
    owner, so that the same code can use both.
    """

    def __init__(self, references: ClientReferences, conversation: Conversation) -> None:
        numbers = itertools.count(m.FIRST_NUMBER)
        self._numbers = numbers
        self.tasks = ClientTasks(references, conversation, numbers)
        self.gangs = self.tasks
        self.calls = ClientCalls(references, conversation, numbers)
        self.actors = ClientRegistration(references, conversation, self.calls, numbers)
        self.objects = ClientObjects(references, conversation)

    def next_object(self) -> int:
        """Return the number of a new value."""
        return next(self._numbers) << INDEX_BITS
