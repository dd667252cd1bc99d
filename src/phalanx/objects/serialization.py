"""Converts values to bytes and back: pickle protocol 5, with buffers and references apart from the
pickle.

The C pickler is tried first. If it fails, or its result names `__main__` (a class or function that
workers cannot import), cloudpickle pickles the value instead.
"""

from __future__ import annotations

import io
import pickle
import sys
from collections.abc import Callable, Sequence
from typing import Any

import cloudpickle

from phalanx.errors import (
    MessageTooLargeError,
    NotPicklableError,
    PhalanxError,
    UnserializableException,
)
from phalanx.objects import by_value
from phalanx.objects.arrow_slices import know_arrow
from phalanx.objects.reference import ObjectRef, nested, nesting

DEFINITION_BYTES = 95 << 20
"""The largest number of bytes of a pickled function, or class of an actor, with the values that it
captures. The limit is Ray's.
"""

_PLAIN = frozenset({int, float, bool, type(None)})
_SMALL_TEXT = 1024
_LARGE_INT = 1 << 256
_APART_BYTES = 1 << 16
"""A `bytes` object of at least this size, in bytes, becomes a buffer of its own, as arrays do. In
the pickle, it would be copied several times.
"""
_MAIN = b"__main__"

_dumps = pickle.dumps
_loads = pickle.loads
NONE_PICKLE = _dumps(None, 5)

_custom: dict[type, Callable[[Any], Any]] = {}
_modules = sys.modules
_knows_arrow = False


CallArguments = tuple[Any, ...] | bytes
"""The arguments of one call of a burst: plain positional arguments that are not pickled yet, or the
pickle of (args, kwargs).
"""


class Pickled:
    """A pickled value: the pickle, its buffers, and the references inside it."""

    __slots__ = ("buffers", "data", "refs")

    def __init__(
        self, data: bytes, buffers: list[pickle.PickleBuffer], refs: list[ObjectRef[Any]]
    ) -> None:
        self.data = data
        self.buffers = buffers
        self.refs = refs


class _Apart:
    """A `bytes` object that is sent as a buffer of its own, and that the reader gets as `bytes`
    again.
    """

    __slots__ = ("value",)

    def __init__(self, value: bytes | bytearray) -> None:
        self.value = value

    def __reduce__(self) -> tuple[type, tuple[pickle.PickleBuffer]]:
        return type(self.value), (pickle.PickleBuffer(self.value),)


def serialize(value: Any) -> bytes | Pickled:
    """Return `value` as plain pickle bytes if it has no buffers or references, otherwise as
    Pickled.

    Raises NotPicklableError, which names the part that cannot be pickled.
    """
    if is_plain(value):
        return _dumps(value, 5)
    kind = type(value)
    if (kind is bytes or kind is bytearray) and len(value) >= _APART_BYTES and not _custom:
        value = _Apart(value)
    global _knows_arrow
    if not _knows_arrow and "pyarrow" in _modules:
        _knows_arrow = know_arrow()
    buffers: list[pickle.PickleBuffer] = []
    refs: list[ObjectRef[Any]] = []
    outer = nesting.refs
    nesting.refs = refs
    try:
        data = None
        if not _custom and not cloudpickle.list_registry_pickle_by_value():
            try:
                data = _dumps(value, 5, buffer_callback=buffers.append)
            except Exception:
                data = None
            if data is not None and _MAIN in data:
                data = None
        if data is None:
            buffers.clear()
            refs.clear()
            data = _cloud_dumps(value, buffers)
    finally:
        nesting.refs = outer
    if buffers or refs:
        return Pickled(data, buffers, refs)
    return data


def is_plain(value: Any) -> bool:
    """Whether a value can be pickled without buffers, references and other modules."""
    kind = type(value)
    return kind in _PLAIN or ((kind is str or kind is bytes) and len(value) < _SMALL_TEXT)


def are_plain(args: tuple[Any, ...]) -> bool:
    """Whether arguments are small and cannot change, so that they may be pickled later, together
    with those of other calls.
    """
    for value in args:
        kind = type(value)
        if kind is int:
            if not -_LARGE_INT < value < _LARGE_INT:
                return False
        elif kind is str or kind is bytes:
            if len(value) >= _SMALL_TEXT:
                return False
        elif kind not in _PLAIN:
            return False
    return True


def pack_call(args: CallArguments) -> bytes:
    """Return the arguments of one call as the pickle of (args, kwargs); b"" for no arguments."""
    if type(args) is bytes:
        return args
    return _dumps((args, {}), 5) if args else b""


def pack_calls(calls: list[CallArguments]) -> bytes:
    """Return the arguments of many calls in one pickle."""
    return _dumps(calls, 5)


def unpack_calls(data: bytes) -> list[CallArguments]:
    """Return the arguments of many calls that `pack_calls` packed. Raises UnserializableException
    for other bytes.
    """
    calls = deserialize(data)
    if type(calls) is not list or not all(type(args) in (tuple, bytes) for args in calls):
        raise UnserializableException("The arguments of several calls are no list of arguments.")
    return calls


def dumps_whole(value: Any) -> bytes:
    """Return `value` as one pickle, with the serializers that users registered."""
    return _cloud_dumps(value, None)


def _cloud_dumps(value: Any, buffers: list[pickle.PickleBuffer] | None) -> bytes:
    callback = None if buffers is None else buffers.append
    if not _custom:
        return by_value.dumps(value, callback)
    file = io.BytesIO()
    _CustomPickler(file, protocol=5, buffer_callback=callback).dump(value)
    return file.getvalue()


class _CustomPickler(by_value.Pickler):
    """A pickler that pickles by value, except for classes with a registered serializer."""

    def reducer_override(self, value: Any) -> Any:
        reduce = _custom.get(type(value))
        return super().reducer_override(value) if reduce is None else reduce(value)


def dumps_definition(value: Any, name: str) -> bytes:
    """Return a function or class as plain bytes, by value if necessary.

    References inside it are pinned for ever, because no process can tell when the last worker
    forgets the definition. Raises MessageTooLargeError, and NotPicklableError, a TypeError that
    names the part that cannot be pickled.
    """
    outer, nesting.refs = nesting.refs, None
    try:
        data = by_value.dumps(value)
    except PhalanxError:  # a reference that must not leave the process in this way
        raise
    except Exception as error:
        raise NotPicklableError(
            f"{name} cannot be sent to workers: {blame(value, error)}"
        ) from error
    finally:
        nesting.refs = outer
    if len(data) > DEFINITION_BYTES:
        raise MessageTooLargeError(
            f"{name} is too large to be sent to workers: it is {len(data)} bytes with all that it "
            f"refers to, and the limit of a definition is {DEFINITION_BYTES}. Put large values "
            "with phalanx.put() and pass their references as arguments."
        )
    return data


class _Reader(pickle.Unpickler):
    """An unpickler that puts the reader's own ObjectRefs in the places that `nested` marks."""

    def __init__(self, data: Any, refs: Sequence[ObjectRef[Any]], buffers: Any) -> None:
        super().__init__(io.BytesIO(data), buffers=buffers)
        self._refs = refs

    def find_class(self, module: str, name: str) -> Any:
        if name == "nested" and module == nested.__module__:
            return self._refs.__getitem__
        return super().find_class(module, name)


def deserialize(
    data: bytes | memoryview,
    buffers: Sequence[Any] = (),
    refs: Sequence[ObjectRef[Any]] = (),
) -> Any:
    """Return the value. Raises UnserializableException if a user's class raises an error."""
    try:
        if refs:
            return _Reader(data, refs, buffers).load()
        if buffers:
            return _loads(data, buffers=buffers)
        return _loads(data)
    except PhalanxError:  # raised by a class that calls Phalanx while it is unpickled
        raise
    except Exception as error:
        raise _unserializable(error) from error


def deserialize_all(pickles: Sequence[bytes]) -> list[Any]:
    """Return the values of these pickles. Raises UnserializableException as `deserialize` does."""
    try:
        return list(map(_loads, pickles))
    except PhalanxError:
        raise
    except Exception as error:
        raise _unserializable(error) from error


def _unserializable(error: Exception) -> UnserializableException:
    return UnserializableException(
        f"A value cannot be unpickled in this process: {type(error).__name__}: {error}"
    )


def register_serializer(
    cls: type, *, serializer: Callable[[Any], Any], deserializer: Callable[[Any], Any]
) -> None:
    """Make values of exactly the class `cls` be sent as `serializer(value)`, and be read with
    `deserializer`.
    """

    def reduce(value: Any) -> tuple[Any, ...]:
        return (_apply, (deserializer, serializer(value)))

    _custom[cls] = reduce
    for notify in on_serializer:
        notify(cls, reduce)


def deregister_serializer(cls: type) -> None:
    """Undo `register_serializer`. Do nothing if the class has no serializer."""
    if _custom.pop(cls, None) is not None:
        for notify in on_serializer:
            notify(cls, None)


on_serializer: list[Callable[[type, Callable[[Any], Any] | None], None]] = []
"""Functions that are called with a class and its new reducer (or None). Engines that pickle on
their own add one.
"""


def custom_reducers() -> dict[type, Callable[[Any], Any]]:
    """Return the reducers of all classes that have a serializer of their own."""
    return dict(_custom)


def _apply(function: Callable[[Any], Any], argument: Any) -> Any:
    return function(argument)


def blame(value: Any, error: BaseException) -> str:
    """Return which part of `value` cannot be pickled, with a path such as `['model'].lock`."""
    path, culprit = "", value
    for _ in range(20):
        for step, child in _children(culprit):
            if _unpicklable(child):
                path, culprit = path + step, child
                break
        else:
            break
    where = f"the piece at {path}" if path else "it"
    return (
        f"{where} is a {type(culprit).__module__}.{type(culprit).__qualname__} "
        f"({_short_repr(culprit)}), which cannot be pickled: {error}"
    )


def _children(value: Any) -> list[tuple[str, Any]]:
    if isinstance(value, dict):
        return [(f"[{_short_repr(k)}]", v) for k, v in value.items()]
    if isinstance(value, list | tuple | set | frozenset):
        return [(f"[{i}]", v) for i, v in enumerate(value)]
    found: list[tuple[str, Any]] = []
    code = getattr(value, "__code__", None)
    if code is not None:
        for name, cell in zip(code.co_freevars, value.__closure__ or (), strict=False):
            try:
                found.append((f".<closure {name}>", cell.cell_contents))
            except ValueError:
                continue  # a cell without a value so far
        for name in code.co_names:
            if name in value.__globals__ and not isinstance(
                value.__globals__[name], type(sys) | type
            ):
                found.append((f".<global {name}>", value.__globals__[name]))
    found += [(f".{name}", v) for name, v in getattr(value, "__dict__", {}).items()]
    return found


def _unpicklable(value: Any) -> bool:
    outer, nesting.refs = nesting.refs, []
    try:
        by_value.dumps(value)
    except Exception:
        return True
    finally:
        nesting.refs = outer
    return False


def _short_repr(value: Any) -> str:
    try:
        text = repr(value)
    except Exception:
        text = "<no repr>"
    return text if len(text) <= 60 else text[:57] + "..."
