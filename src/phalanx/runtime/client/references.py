"""The references of a client. A reference has the name of an object of the client's driver.

A client holds no values, except those that it was asked to watch. Each reference has a hold; when
the reference is gone, the hold notes that the driver may drop the object.
"""

from __future__ import annotations

import sys
import threading
import weakref
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any

from phalanx.model.ids import INDEX_BITS
from phalanx.objects import failures
from phalanx.objects.reference import ObjectRef, Vanished, make_ref
from phalanx.objects.serialization import deserialize
from phalanx.objects.streams import Stream
from phalanx.protocol import client_messages as m
from phalanx.protocol.messages import FAILED, Payload, Value
from phalanx.runtime.client.conversation import Conversation
from phalanx.runtime.driver.alignment import aligned


class NameHold:
    """Counts how often the client had a name: how often it made the name or received it."""

    __slots__ = ("count", "dropped", "number", "owner")

    def __init__(
        self, owner: bytes, number: int, count: int, dropped: deque[tuple[bytes, int, int]]
    ) -> None:
        self.owner = owner
        self.number = number
        self.count = count
        self.dropped = dropped

    def __del__(self) -> None:
        self.dropped.append((self.owner, self.number, self.count))


class ClientReferences:
    """The hooks of references and generators in a client."""

    def __init__(self, me: bytes, conversation: Conversation) -> None:
        """`me`: the id of the driver's process, which owns the client's work."""
        self._me = me
        self._conversation = conversation
        self._lock = threading.RLock()
        self._known: weakref.WeakValueDictionary[m.Name, ObjectRef[Any]] = (
            weakref.WeakValueDictionary()
        )
        self._watchers: dict[m.Name, tuple[ObjectRef[Any], list[Callable[[], None]]]] = {}
        self._streams: dict[int, tuple[weakref.ref[Stream], int]] = {}
        """For each stream that has not ended, by the number of its task: the stream, and how many
        of its items have arrived.
        """
        self.abandoned: deque[Stream] = deque()
        self._grown = threading.Condition(self._lock)
        conversation.heard[m.Arrived] = self._arrived
        conversation.heard[m.StreamGrew] = self._grew

    # ---- names -------------------------------------------------------------------------------

    def made(self, number: int, index: int) -> ObjectRef[Any]:
        """Return a new reference to a result of this client's work. The client chooses the name."""
        ref = make_ref(self._me, (number << INDEX_BITS) + index)
        self._keep(ref, 1)
        return ref

    def came(self, owner: bytes, number: int) -> ObjectRef[Any]:
        """Return this process's one reference for a name that the driver has sent."""
        with self._lock:
            ref = self._known.get((owner, number))
            if ref is None:
                ref = make_ref(owner, number)
                self._keep(ref, 1)
            else:
                ref._hold.count += 1
            return ref

    def _keep(self, ref: ObjectRef[Any], count: int) -> None:
        ref._hold = NameHold(ref._owner, ref._number, count, self._conversation.dropped)
        with self._lock:
            self._known[ref._owner, ref._number] = ref

    def inner_of(self, value: Payload) -> list[ObjectRef[Any]]:
        """Return the references in a value that has arrived."""
        return [self.came(*name) for name in value.refs] if type(value) is Value else []

    # ---- values ------------------------------------------------------------------------------

    def read(self, value: Payload, inner: list[ObjectRef[Any]]) -> Any:
        """Return a value that has arrived. Raises an error that has arrived as a value."""
        if type(value) is bytes:
            return deserialize(value)
        assert type(value) is Value
        if value.kind == FAILED:
            raise failures.load(value.data)
        return deserialize(value.data, [aligned(one) for one in value.buffers], inner)

    # ---- RefHooks ----------------------------------------------------------------------------

    def adopt(self, owner: bytes, number: int) -> ObjectRef[Any]:
        """Return this process's one reference for a name that the program had kept as bytes."""
        with self._lock:
            ref = self._known.get((owner, number))
            if ref is None:
                ref = make_ref(owner, number)
                self._keep(ref, 0)
            return ref

    def export(self, ref: ObjectRef[Any]) -> None:
        """Do nothing: the driver notes the references in values."""

    def pin_forever(self, ref: ObjectRef[Any]) -> None:
        """Keep the object for ever, because its reference is pickled by hand."""
        name = (ref._owner, ref._number)
        if name in self._known:  # any other reference is only a name
            self._conversation.tell(m.Pin(name))

    def on_ready(self, ref: ObjectRef[Any], callback: Callable[[], None]) -> None:
        """Call `callback` once the value is here."""
        name = (ref._owner, ref._number)
        with self._lock:
            is_here = ref._value is not None
            if not is_here:
                _, callbacks = self._watchers.setdefault(name, (ref, []))
                callbacks.append(callback)
                is_first = len(callbacks) == 1
        if is_here:
            callback()
        elif is_first:
            self._conversation.tell(m.WatchObject(name))

    def value_of(self, ref: ObjectRef[Any]) -> Any:
        """Return the value of a ready reference. Raises the reference's error, or Vanished."""
        if ref._value is None:
            raise Vanished
        return self.read(ref._value, ref._inner or [])

    def call_site(self, ref: ObjectRef[Any]) -> str:
        """Return "": clients record no places."""
        return ""

    def _arrived(self, message: m.Arrived) -> None:
        self._complete(message.ref, message.value, self.inner_of(message.value))

    def _complete(self, name: m.Name, value: Payload, inner: list[ObjectRef[Any]]) -> None:
        with self._lock:
            ref, callbacks = self._watchers.pop(name, (None, []))
            if ref is not None:
                ref._inner = inner
                ref._value = value
        for callback in callbacks:
            self._conversation.later(callback)

    def fail_all(self, error: Value) -> None:
        """End all waits for values and items, because the driver is lost."""
        with self._lock:
            for name in list(self._watchers):
                self._complete(name, error, [])
            for number, (found, _) in list(self._streams.items()):
                stream = found()
                del self._streams[number]
                if stream is not None:
                    ref = stream.slot(stream.next_free())
                    ref._value = error
                    stream.arrived(stream.next_free())
                    stream.end()
            self._grown.notify_all()

    # ---- streams -----------------------------------------------------------------------------

    def begin(self, stream: Stream, number: int) -> None:
        """Follow the stream of a task or call."""
        base = number << INDEX_BITS
        stream.number, stream.first = number, base
        stream.completion = self.made(number, 0)
        found = weakref.ref(stream)
        stream.on_taken = partial(self._taken, found)
        with self._lock:
            self._streams[number] = found, 0

    def _taken(self, found: weakref.ref[Stream]) -> None:
        stream = found()
        if stream is not None and stream.taken_to != sys.maxsize:
            self._conversation.tell(m.TakeItems(stream.number, stream.taken_to))

    def _grew(self, message: m.StreamGrew) -> None:
        base = message.number << INDEX_BITS
        with self._lock:
            found, told = self._streams.get(message.number, (None, 0))
            stream = None if found is None else found()
            for index in range(told + 1, message.arrived_to + 1):
                if stream is None:
                    self._conversation.dropped.append((self._me, base + index, 1))
                    continue
                self._keep(stream.slot(index), 1)
                stream.arrived(index)
            if message.is_ended:
                self._streams.pop(message.number, None)
                if stream is not None:
                    stream.end()
            elif found is not None:
                self._streams[message.number] = found, message.arrived_to
            self._grown.notify_all()

    def wait_stream(self, stream: Stream, index: int, timeout_s: float | None) -> bool:
        """Wait until item `index` has arrived or the stream has ended. Returns False if the time is
        up.
        """
        with self._grown:
            return self._grown.wait_for(
                lambda: stream.arrived_to >= index or stream.is_ended, timeout_s
            )

    def left_streams(self) -> list[Any]:
        """Return the messages that tell the driver which streams nobody reads any more."""
        found: list[Any] = []
        for _ in range(len(self.abandoned)):
            stream = self.abandoned.popleft()
            if not stream.is_ended:
                found.append(m.LeaveStream(stream.number))
        return found
