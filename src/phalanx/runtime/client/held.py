"""The references that a driver holds for its client."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager
from typing import Any

from phalanx.model.ids import INDEX_BITS
from phalanx.objects.reference import ObjectRef
from phalanx.objects.streams import Stream
from phalanx.owner.objects.references import References
from phalanx.protocol.client_messages import Name
from phalanx.protocol.messages import Payload, Value


class HeldReferences:
    """References by their names. Counts, for each name, how often the client has received it or
    made it.

    When the client has dropped all its references with a name, it reports its own count. If the
    driver's count is larger, the name is on its way to the client again, and the object is kept.
    """

    def __init__(self, references: References, lock: AbstractContextManager[Any]) -> None:
        """`lock` guards the owner's machines; it is re-entrant."""
        self._references = references
        self._lock = lock
        self._held: dict[Name, tuple[ObjectRef[Any], int]] = {}
        self.streams: dict[int, Stream] = {}
        """The streams that the client reads, by the numbers of their tasks."""

    def hold(self, ref: ObjectRef[Any]) -> None:
        """Count that the client receives or makes the name of this reference one more time."""
        with self._lock:
            name = (ref._owner, ref._number)
            _, count = self._held.get(name, (ref, 0))
            self._held[name] = ref, count + 1

    def drop(self, owner: bytes, number: int, count: int) -> None:
        """Forget a reference, unless its name is on its way to the client again. `count`: how often
        the client had the name.
        """
        with self._lock:
            ref, had = self._held.get((owner, number), (None, 0))
            if ref is not None and had > count:
                self._held[owner, number] = ref, had - count
            else:
                self._held.pop((owner, number), None)

    def of(self, name: Name) -> ObjectRef[Any]:
        """Return the reference with this name."""
        owner, number = name
        with self._lock:
            if (found := self._held.get((owner, number))) is not None:
                return found[0]
            stream = self.streams.get(number >> INDEX_BITS)
            if stream is not None and stream.owner == owner and number > stream.first:
                return stream.slot(number - stream.first)
            return self._references.adopt(owner, number)

    def leaving(self, names: Iterable[Name]) -> list[ObjectRef[Any]]:
        """Return the references with these names, which are in a value that leaves this process."""
        refs = [self.of(name) for name in names]
        with self._lock:
            for ref in refs:
                self._references.export(ref)
        return refs

    def going(self, ref: ObjectRef[Any], value: Payload) -> Payload:
        """Return a value in the form in which it goes to the client. References in the value are
        held from now on.
        """
        if type(value) is Value:
            for inner in ref._inner or ():
                self.hold(inner)
        return value
