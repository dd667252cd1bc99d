"""Lineage: the finished tasks that an owner remembers, so that lost results can be made again.

A task is remembered as soon as it has a result in shared memory. (Small results are in their owner
and are never lost.) Each reference to a result holds the remembered task, so Python's reference
counting decides how long the task is kept: while any of its large results exists, or any result
that was made from them.

Memory. A remembered task keeps its own arguments: the pickle, the file of large arguments, and the
small values that were given by reference. For large objects that were given by reference it keeps
the lineage and not the bytes. Such an object is freed with its last reference, and is made again,
recursively, before the task runs again. So a pipeline that can be recovered needs no more memory
than any other; only recovery costs time.

Two kinds of arguments have no lineage here. The first are large objects of this process that cannot
be made again, because they were put or their task may not run twice. They are kept as they are, as
in Ray, but only the newest, up to a limit of bytes: otherwise a loop that puts an object at each
step would fill the store. A result whose argument was dropped cannot be made again, and the error
says that. The second are objects of other processes: they are kept as they are, because their
owners do not know this process's lineage. The bytes of kept arguments count against the limit, too;
when it is exceeded, the oldest tasks are forgotten.

Finalizers only append to a deque, which the next call empties.
"""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol

from phalanx.errors import (
    ObjectLostError,
    ObjectReconstructionFailedError,
    ObjectReconstructionFailedLineageEvictedError,
    ObjectReconstructionFailedMaxAttemptsExceededError,
)
from phalanx.model.ids import object_id_bytes
from phalanx.model.system_settings import LINEAGE_BYTES
from phalanx.objects import failures
from phalanx.objects.file_hold import FileHold
from phalanx.objects.reference import ObjectRef, make_ref
from phalanx.owner.objects.lost_together import LostTogether
from phalanx.owner.work import PendingWork, Recipe
from phalanx.protocol.messages import Payload, Value

RECORD_BYTES = 1024
"""The bytes that are counted for the record and the links of a remembered task, in addition to its
arguments.
"""


class Unmakeable(NamedTuple):
    """Why an object cannot be made again: a kind of reason, for programs, and a clause for
    display.
    """

    kind: str
    """The kind of reason: put, disabled, off, exhausted, evicted, cancelled, items or actor."""
    why: str


_RAYS = {
    "put": "PUT",
    "disabled": "RETRIES_DISABLED",
    "off": "LINEAGE_DISABLED",
    "exhausted": "MAX_ATTEMPTS_EXCEEDED",
    "evicted": "LINEAGE_EVICTED",
}
"""The words that Ray uses for these kinds. Programs look for them in messages."""


def lost_error(owner: bytes, number: int, reason: Unmakeable, place: str = "") -> ObjectLostError:
    """Return the error of an object of `owner` that is lost for good.

    `place`: where in the program the object was made; "" if that is not recorded.
    """
    kinds = {
        "exhausted": ObjectReconstructionFailedMaxAttemptsExceededError,
        "evicted": ObjectReconstructionFailedLineageEvictedError,
    }
    name = object_id_bytes(owner, number).hex()
    cls = kinds.get(reason.kind, ObjectReconstructionFailedError)
    text = f"Object {name} is lost and cannot be made again: {reason.why}"
    if reason.kind in _RAYS:
        text += f" [ObjectReconstructionFailedError: OBJECT_UNRECONSTRUCTABLE_{_RAYS[reason.kind]}]"
    return cls(name, text + (f" It was made at {place}" if place else ""))


def put_by(owner: bytes) -> Unmakeable:
    """Return the reason why an object that was put cannot be made again: no task made it."""
    return Unmakeable(
        "put",
        f"it was put by process {owner.hex()}, which owns it, and only results of tasks can be "
        "made again. Put it again, or make it in a task.",
    )


def no_retries(recipe: Recipe) -> Unmakeable:
    """Return the reason that work cannot run again because all its retries are used up."""
    name, option = recipe.name, recipe.option
    if recipe.allowed == 0:
        why = f"{name}, which made it, may not run again ({option}=0)."
        return Unmakeable("disabled", why)
    why = f"all retries of {name}, which made it, are used up ({option}={recipe.allowed})."
    return Unmakeable("exhausted", why)


SWITCHED_OFF = Unmakeable(
    "off", "this cluster does not make results again (setting lineage_pinning_enabled)."
)


class LostHold:
    """Marks the owner's reference to an object whose bytes are lost, until the object is made
    again.
    """

    __slots__ = ("lineage",)

    def __init__(self, lineage: Remembered) -> None:
        self.lineage = lineage


Export = Callable[[ObjectRef[Any]], None]
"""Called with each new reference for which other processes may ask by its number."""


class Source(Protocol):
    """Where an argument comes from when a task in the lineage has to run again."""

    kept_bytes: int

    def revive(self, export: Export) -> ObjectRef[Any]:
        """Return the reference to the argument: the existing one or, if there is none, a new
        reference to the same object.
        """
        ...


class Whole:
    """The source of an argument that is an object of another process. The object is kept as it
    is.
    """

    __slots__ = ("_ref",)
    kept_bytes = 0

    def __init__(self, ref: ObjectRef[Any]) -> None:
        self._ref = ref

    def revive(self, export: Export) -> ObjectRef[Any]:
        """Return the reference that was kept."""
        return self._ref


class Awaited:
    """The source of an argument that is an object of this process and was not ready when the task
    finished. The object is kept until it is ready.
    """

    __slots__ = ("_ref", "_source")
    kept_bytes = 0

    def __init__(self, ref: ObjectRef[Any]) -> None:
        self._ref: ObjectRef[Any] | None = ref
        self._source: Source = Whole(ref)
        ref._waiters = [*(ref._waiters or ()), self]

    def notify(self, failed: bool = False) -> None:
        """Note that the object is ready. The object calls this method, because this source is one
        of its waiters.
        """
        ref, self._ref = self._ref, None
        if ref is not None:
            self._source = _source(ref._owner, ref)

    def revive(self, export: Export) -> ObjectRef[Any]:
        """Return the reference to the object. Before the object is ready, this is the kept
        reference. Afterwards, it comes from the source that fits the object's value.
        """
        return self._source.revive(export)


class Small:
    """The source of an argument whose small value is in this process, its owner. The source keeps
    the value and the references in it.
    """

    __slots__ = ("_inner", "_number", "_owner", "_payload", "kept_bytes")

    def __init__(self, ref: ObjectRef[Any], payload: Payload) -> None:
        self._owner = ref._owner
        self._number = ref._number
        self._payload = payload
        self._inner = sources(ref._owner, ref._inner)
        self.kept_bytes = bytes_of(payload) + sum(s.kept_bytes for s in self._inner)

    def revive(self, export: Export) -> ObjectRef[Any]:
        """Return a reference with the small value."""
        ref = make_ref(self._owner, self._number)
        ref._inner = [source.revive(export) for source in self._inner] or None
        ref._value = self._payload
        export(ref)
        return ref


class Result:
    """The source of an argument that is a large result of a remembered task."""

    __slots__ = ("_number", "record")
    kept_bytes = 0

    def __init__(self, record: Remembered, number: int) -> None:
        self.record = record
        """The record of the work that makes the result."""
        self._number = number

    def is_gone(self) -> bool:
        """Whether the program no longer holds the result."""
        return self._number not in self.record.refs

    def revive(self, export: Export) -> ObjectRef[Any]:
        """Return the existing reference to the result or, if there is none, a new reference that is
        marked as lost.
        """
        ref = self.record.refs.get(self._number)
        if ref is None:
            ref = self.record.revive(self._number)
            export(ref)
        return ref


class Fleeting:
    """The source of an argument that is freed with its last reference and cannot be made again."""

    __slots__ = ("__weakref__", "_number", "_owner", "_ref", "reason")
    kept_bytes = 0

    def __init__(self, ref: ObjectRef[Any], reason: Unmakeable) -> None:
        self._ref = weakref.ref(ref)
        self._owner = ref._owner
        self._number = ref._number
        self.reason = reason

    def revive(self, export: Export) -> ObjectRef[Any]:
        """Return the existing reference or, if there is none, a new reference whose value is the
        error of a lost object.
        """
        ref = self._ref()
        if ref is None:
            ref = make_ref(self._owner, self._number)
            error = lost_error(self._owner, self._number, self.reason)
            ref._value = failures.failed(error)
            export(ref)
        return ref


class Kept(Fleeting):
    """The source of an object that cannot be made again. While there is room, the object is kept
    for the objects that were made from it.
    """

    __slots__ = ("_whole", "size")

    def __init__(self, ref: ObjectRef[Any], reason: Unmakeable, size: int) -> None:
        super().__init__(ref, reason)
        self._whole: ObjectRef[Any] | None = ref
        self.size = size

    def drop(self) -> None:
        """Stop keeping the object, because there is no room for it."""
        self._whole = None


class KeptObjects:
    """The newest large objects that cannot be made again. Each is kept while an object that was
    made from it exists.

    The sources of these objects hold them.
    """

    def __init__(self) -> None:
        self._sources: weakref.WeakValueDictionary[int, Kept] = weakref.WeakValueDictionary()
        self._counted_bytes = 0
        """The bytes of these objects, and of those that have gone since the bytes were last
        counted.
        """

    def keep(self, ref: ObjectRef[Any], source: Fleeting, limit_bytes: int) -> Fleeting:
        """Keep this object, and return the source that holds it."""
        found = self._sources.get(ref._number)
        if found is not None:
            return found
        kept = Kept(ref, source.reason, ref._hold.size)
        self._sources[ref._number] = kept
        self._counted_bytes += kept.size
        if self._counted_bytes > limit_bytes:
            self._make_room(limit_bytes)
        return kept

    def _make_room(self, limit_bytes: int) -> None:
        self._counted_bytes = 0
        for number, one in list(self._sources.items())[::-1]:  # the newest first
            if self._counted_bytes + one.size > limit_bytes:
                one.drop()
                del self._sources[number]
            else:
                self._counted_bytes += one.size


def sources(owner: bytes, refs: Sequence[ObjectRef[Any]] | None) -> list[Source]:
    """Return the source of each of these arguments of a task that `owner` submitted."""
    return [_source(owner, ref) for ref in refs or ()]


def _source(owner: bytes, ref: ObjectRef[Any]) -> Source:
    hold = ref._hold
    if hasattr(hold, "lineage"):
        if isinstance(hold.lineage, Remembered):
            return Result(hold.lineage, ref._number)
        return Fleeting(ref, hold.lineage or _freed(owner))
    payload = ref._value
    if ref._owner != owner:
        return Whole(ref)
    if payload is None:
        return Awaited(ref)
    if hold is not None:
        # This is the reference behind an actor's handle. A remembered task keeps no actor alive.
        return Fleeting(ref, Unmakeable("actor", "the last handle of its actor has gone."))
    return Small(ref, payload)


def _freed(owner: bytes) -> Unmakeable:
    return Unmakeable(
        "put",
        f"it was put by process {owner.hex()}, which owned it and freed it when its last "
        "reference went. Keep references to the arguments of large results.",
    )


def bytes_of(payload: Payload) -> int:
    """Return the bytes of memory that a payload takes."""
    if type(payload) is bytes:
        return len(payload)
    assert isinstance(payload, Value)
    return len(payload.data) + sum(len(buffer) for buffer in payload.buffers) + payload.size


class Remembered:
    """A finished task or call that can run again."""

    __slots__ = (
        "__weakref__",
        "_released",
        "args",
        "attempt",
        "inputs",
        "kept_bytes",
        "lost_together",
        "nested",
        "number",
        "owner",
        "recipe",
        "refs",
        "refusal",
        "retries",
        "shared_args",
    )

    def __init__(self, owner: bytes, number: int, recipe: Recipe, released: deque[int]) -> None:
        self.owner = owner
        self.number = number
        self.recipe = recipe
        self._released = released
        self.args: Payload = b""
        self.shared_args: Any = None
        """The hold on the arguments' file, if the arguments were too large for a message."""
        self.inputs: list[Source] | None = None
        self.nested: list[Source] | None = None
        self.retries = 0
        """How often the work may still run again; -1 for any number of times."""
        self.attempt = 0
        self.kept_bytes = 0
        self.lost_together: LostTogether | None = None
        """The lost objects that were made from results of this work which the program no longer
        holds.
        """
        self.refusal: Unmakeable | None = None
        self.refs: weakref.WeakValueDictionary[int, ObjectRef[Any]] = weakref.WeakValueDictionary()
        """The results of the work to which references exist, by number."""

    def made(self, ref: ObjectRef[Any]) -> None:
        """Add a result of the work."""
        self.refs[ref._number] = ref

    def revive(self, number: int) -> ObjectRef[Any]:
        """Return a new reference to result `number`, whose last reference is gone. The reference is
        marked as lost.
        """
        ref = make_ref(self.owner, number)
        ref._hold = LostHold(self)
        self.made(ref)
        return ref

    def gone_parents(self) -> Iterator[Remembered]:
        """Yield the work that made those arguments which the program no longer holds."""
        for arguments in (self.inputs, self.nested):
            for source in arguments or ():
                if isinstance(source, Result) and source.is_gone():
                    yield source.record

    def why_not(self) -> Unmakeable | None:
        """Return why the work cannot run again; None if the work can run again."""
        if self.refusal is not None:
            return self.refusal
        refusal = self.recipe.refusal()
        if refusal:
            return Unmakeable("actor", f"{self.recipe.name}, which made it, {refusal}")
        return no_retries(self.recipe) if self.retries == 0 else None

    def charge(self) -> None:
        """Count another run of the work. It uses up one retry."""
        assert self.retries != 0
        if self.retries > 0:
            self.retries -= 1
        self.attempt += 1

    def renew(self, inputs: list[ObjectRef[Any]] | None, pins: list[Any] | None) -> PendingWork:
        """Return new work that runs this work once more."""
        work = self.recipe.renew(self.number, self.args)
        work.inputs, work.pins = inputs, pins
        work.retries, work.attempt = self.retries, self.attempt
        return work

    def forget(self, reason: Unmakeable) -> None:
        """Release the arguments, because the work cannot run again."""
        self.refusal = reason
        self.args, self.shared_args, self.inputs, self.nested = b"", None, None, None
        self.kept_bytes = 0

    def __del__(self) -> None:
        # This may run at any time, so it only records the number.
        self._released.append(self.number)


class Lineage:
    """The finished tasks that an owner remembers, oldest first."""

    def __init__(self, limit_bytes: int = LINEAGE_BYTES) -> None:
        self.limit_bytes = limit_bytes
        self._objects = KeptObjects()
        self._records: dict[int, tuple[weakref.ref[Remembered], int]] = {}
        self._released: deque[int] = deque()
        self._kept_bytes = 0
        self.evicted = 0
        """How many tasks were forgotten for lack of room."""

    def remember(self, owner: bytes, work: PendingWork, recipe: Recipe) -> Remembered:
        """Keep the arguments of this work, so that the work can run again."""
        record = Remembered(owner, work.number, recipe, self._released)
        record.retries, record.attempt = work.retries, work.attempt
        record.args = work.args
        if work.inputs is not None:
            record.inputs = self._sources(owner, work.inputs)
        if work.pins is not None:
            record.shared_args = work.pins[0]
            record.nested = self._sources(owner, work.pins[1])
        kept = (*(record.inputs or ()), *(record.nested or ()))
        record.kept_bytes = RECORD_BYTES + bytes_of(work.args) + sum(s.kept_bytes for s in kept)
        self._collect()
        self._records[work.number] = (weakref.ref(record), record.kept_bytes)
        self._kept_bytes += record.kept_bytes
        self._evict()
        return record

    def _sources(self, owner: bytes, refs: Sequence[ObjectRef[Any]] | None) -> list[Source]:
        found = sources(owner, refs)
        for at, ref in enumerate(refs or ()):
            source = found[at]
            if isinstance(source, Fleeting) and type(ref._hold) is FileHold:
                found[at] = self._objects.keep(ref, source, self.limit_bytes)
        return found

    def forget(self, record: Remembered, reason: Unmakeable) -> None:
        """Forget work that must not run again."""
        self._drop(record.number)
        record.forget(reason)

    def cancelled(self, number: int) -> None:
        """Forget work that was cancelled and has ended. Its results stay, but are not made
        again.
        """
        record = self._records[number][0]() if number in self._records else None
        if record is not None:
            name = record.recipe.name
            self.forget(record, Unmakeable("cancelled", f"{name}, which made it, was cancelled."))

    def _collect(self) -> None:
        released = self._released
        while released:
            self._drop(released.popleft())

    def _drop(self, number: int) -> None:
        entry = self._records.pop(number, None)
        if entry is not None:
            _, size = entry
            self._kept_bytes -= size

    def _evict(self) -> None:
        while self._kept_bytes > self.limit_bytes:
            number = next(iter(self._records))
            record = self._records[number][0]()
            self._drop(number)
            if record is not None:
                self.evicted += 1
                mib = self.limit_bytes / (1 << 20)
                why = (
                    f"{record.recipe.name}, which made it, was forgotten: an owner keeps {mib:g} "
                    "MiB of its tasks' arguments to make lost results again, and drops the oldest "
                    "first."
                )
                record.forget(Unmakeable("evicted", why))

    @property
    def kept_bytes(self) -> int:
        """The number of bytes that are kept now."""
        self._collect()
        return self._kept_bytes

    def __len__(self) -> int:
        self._collect()
        return len(self._records)


Maker = Remembered | Unmakeable
"""The work that can make an object again, or the reason why no work can."""
