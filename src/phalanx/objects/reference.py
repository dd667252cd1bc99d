"""ObjectRef: a reference to a value that may not exist yet, with the value's state in this process.

A process holds at most one ObjectRef per object: a reference that arrives twice is the same Python
object. So Python's own reference counting is the local count, and equality is identity. The
attribute `_hold` of an ObjectRef has a finalizer, which cleans up after the last reference: it
releases a file in shared memory, or a borrow at another owner.
"""

from __future__ import annotations

import gc
import threading
from abc import ABCMeta
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar
from weakref import WeakValueDictionary

from phalanx.model.ids import INDEX_BITS, JobID, TaskID, object_id_bytes, split_object_id
from phalanx.protocol.messages import Payload

if TYPE_CHECKING:
    import asyncio
    import concurrent.futures

T = TypeVar("T")


class Vanished(Exception):
    """Raised if a value was here but is lost, and is being fetched again. Callers must wait for it
    again.
    """


class RefHooks(Protocol):
    """The methods that references need from their process."""

    def adopt(self, owner: bytes, number: int) -> ObjectRef[Any]:
        """Return this process's only ObjectRef for an object."""
        ...

    def export(self, ref: ObjectRef[Any]) -> None:
        """Note that a value that contains this reference is about to leave this process."""
        ...

    def pin_forever(self, ref: ObjectRef[Any]) -> None:
        """Keep the object of a reference for ever, because the reference was pickled outside the
        values that Phalanx follows.

        Raises OutOfBandSerializationError if the environment forbids that.
        """
        ...

    def on_ready(self, ref: ObjectRef[Any], callback: Callable[[], None]) -> None:
        """Call `callback` once, from any thread, when the value or error has arrived."""
        ...

    def value_of(self, ref: ObjectRef[Any]) -> Any:
        """Return the value of a ready reference. Raises the reference's error, or Vanished."""
        ...

    def call_site(self, ref: ObjectRef[Any]) -> str:
        """Return where in the program the object was made, if that is recorded; otherwise ""."""
        ...


class _Process:
    """The hooks through which references reach their process. The hooks are set while a runtime is
    up.
    """

    hooks: RefHooks | None = None


process = _Process()


ended_processes: set[bytes] = set()
"""The ids that this process had before. References whose owners have these ids are useless now."""


def forget_process(process_id: bytes) -> None:
    """Note that this process can no longer read references whose owner has this id."""
    ended_processes.add(process_id)


class Nesting(threading.local):
    """The references inside the value that this thread is pickling, in the order in which the
    pickler meets them.
    """

    refs: list[ObjectRef[Any]] | None = None


nesting = Nesting()


class ObjectRef(Generic[T], metaclass=ABCMeta):
    """A reference to a value: pass it to tasks, `get` it, `await` it.

    The class is abstract so that references of other engines can be registered as its subclasses.
    """

    __slots__ = (
        "__weakref__",
        "_cached",
        "_hold",
        "_inner",
        "_number",
        "_owner",
        "_value",
        "_waiters",
    )

    _owner: bytes
    _number: int
    _value: Payload | None
    _waiters: list[Any] | tuple[Any] | None
    """The objects that are told when the value comes. A tuple has one `Waiter` of a thread, and
    belongs to all references for which that thread waits. A list or tuple is never changed: another
    one replaces it.
    """
    _hold: Any
    _cached: Any
    _inner: list[ObjectRef[Any]] | None

    def __new__(cls, id_bytes: bytes | None = None) -> ObjectRef[T]:
        """Return the reference with these 28 bytes. Without bytes, which only Phalanx leaves out,
        return an empty reference to fill.
        """
        if id_bytes is None:
            return object.__new__(cls)
        if not isinstance(id_bytes, bytes):
            raise TypeError(f"ObjectRef takes 28 bytes, got {type(id_bytes).__name__}.")
        owner, number = split_object_id(id_bytes)
        if process.hooks is None or number >> 63:  # no process ever counts this far
            return _by_value(owner, number)
        return process.hooks.adopt(owner, number)

    @classmethod
    def from_binary(cls, id_bytes: bytes) -> ObjectRef[T]:
        """Return the reference with these 28 bytes."""
        return cls(id_bytes)

    @classmethod
    def from_hex(cls, text: str) -> ObjectRef[T]:
        """Return the reference whose hex() is `text`."""
        return cls(bytes.fromhex(text))

    @classmethod
    def from_random(cls) -> ObjectRef[T]:
        """Return a reference without an owner, which is only useful as a name in tests."""
        import secrets

        return cls(secrets.token_bytes(28))

    @classmethod
    def nil(cls) -> ObjectRef[T]:
        """Return the nil reference, which names nothing."""
        return make_ref(b"\xff" * 16, (1 << 96) - 1)

    @classmethod
    def size(cls) -> int:
        """Return the length of the id in bytes."""
        return 28

    def is_nil(self) -> bool:
        """Whether this is the nil reference, which names nothing."""
        return self._owner == b"\xff" * 16

    def binary(self) -> bytes:
        """Return the 28 bytes of the object's id."""
        if self.is_nil():
            return b"\xff" * 28
        return object_id_bytes(self._owner, self._number)

    def hex(self) -> str:
        """Return the object's id as hex digits."""
        return self.binary().hex()

    def task_id(self) -> TaskID:
        """Return the id of the task that computes the object. An object that was put has a task id
        of its own.
        """
        return TaskID(self.binary()[:24])

    def job_id(self) -> JobID:
        """Return the id of the job of the object's owner."""
        return JobID(self._owner[12:])

    def owner_address(self) -> str:
        """Return the name of the process that owns the object."""
        return self._owner.hex()

    def call_site(self) -> str:
        """Return where in the program the object was made, if the environment turns on the
        recording of such places (RAY_record_ref_creation_sites=1); otherwise "".
        """
        return "" if process.hooks is None else process.hooks.call_site(self)

    def future(self) -> concurrent.futures.Future[T]:
        """Return a concurrent future of the value."""
        import concurrent.futures  # this import is slow, and most programs make no futures

        future: concurrent.futures.Future[T] = concurrent.futures.Future()
        self._on_completed(
            lambda outcome: _settle(future, outcome),
        )
        return future

    def _on_completed(self, callback: Callable[[Any], None]) -> None:
        """Call `callback(value or exception)` when the object is ready."""
        hooks = _hooks()

        def ready() -> None:
            try:
                outcome = hooks.value_of(self)
            except Vanished:
                hooks.on_ready(self, ready)
                return
            except BaseException as error:
                outcome = error
            callback(outcome)

        hooks.on_ready(self, ready)

    def as_future(self) -> asyncio.Future[T]:
        """Return an asyncio future of the value. The future belongs to the running loop or, if no
        loop runs, to the loop of the thread.
        """
        import asyncio  # slow to import, and most programs have no event loop

        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            loop = asyncio.get_event_loop_policy().get_event_loop()
        future: asyncio.Future[T] = loop.create_future()
        hooks = _hooks()

        def finish() -> None:
            if future.done():
                return
            try:
                future.set_result(hooks.value_of(self))
            except Vanished:
                hooks.on_ready(self, ready)
            except BaseException as error:
                future.set_exception(error)

        def ready() -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(finish)

        hooks.on_ready(self, ready)
        return future

    def __await__(self) -> Generator[Any, None, T]:
        return self.as_future().__await__()

    @property
    def _task(self) -> int:
        """The number of the task or call that makes the object. If the object was put: the number
        of the object itself.
        """
        return self._number >> INDEX_BITS

    def __reduce__(self) -> tuple[Any, ...]:
        refs = nesting.refs
        if refs is None:
            if process.hooks is not None:
                process.hooks.pin_forever(self)
            return (_load_alone, (self.binary(),))
        if process.hooks is not None:
            process.hooks.export(self)
        refs.append(self)
        return (nested, (len(refs) - 1,))

    def __copy__(self) -> ObjectRef[T]:
        return self

    def __deepcopy__(self, memo: object) -> ObjectRef[T]:
        return self

    def __repr__(self) -> str:
        return f"ObjectRef({self.hex()})"

    def __class_getitem__(cls, item: Any) -> Any:
        import types

        return types.GenericAlias(cls, item)


def make_ref(owner: bytes, number: int) -> ObjectRef[Any]:
    """Return a pending reference. The caller ensures that this process has no other reference to
    the object.
    """
    ref: ObjectRef[Any] = object.__new__(ObjectRef)
    ref._owner = owner
    ref._number = number
    ref._value = None
    ref._waiters = None
    ref._hold = ref._cached = ref._inner = None
    return ref


def living_references() -> list[ObjectRef[Any]]:
    """Return all references of this process. Only listings may call it, because it looks at every
    Python object.
    """
    return [found for found in gc.get_objects() if type(found) is ObjectRef]


_named: WeakValueDictionary[tuple[bytes, int], ObjectRef[Any]] = WeakValueDictionary()


def _by_value(owner: bytes, number: int) -> ObjectRef[Any]:
    """Return the reference with this id that is not connected to a process. Each id has only one
    such reference.
    """
    return _named.setdefault((owner, number), make_ref(owner, number))


def nested(index: int) -> ObjectRef[Any]:
    """Mark, in a pickle, the place of reference `index` of the value. Readers replace the mark by
    their own reference.
    """
    raise ValueError(
        f"a value with references (number {index}) was unpickled by hand; "
        "get it with phalanx.get, or pickle it outside a task"
    )


ObjectID = ObjectRef
"""Ray's older name for ObjectRef."""


def _load_alone(id_bytes: bytes) -> ObjectRef[Any]:
    return ObjectRef(id_bytes)


def _hooks() -> RefHooks:
    if process.hooks is None:
        raise RuntimeError("Phalanx is not running: call phalanx.init() first.")
    return process.hooks


def _settle(future: concurrent.futures.Future[Any], outcome: Any) -> None:
    if not future.set_running_or_notify_cancel():
        return
    if isinstance(outcome, BaseException):
        future.set_exception(outcome)
    else:
        future.set_result(outcome)
