"""What references and generators of references ask of the process that they live in."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import Any

from phalanx.errors import OutOfBandSerializationError
from phalanx.objects.reference import ObjectRef
from phalanx.objects.streams import Stream
from phalanx.owner.objects.references import References
from phalanx.owner.objects.table import Callback, ObjectTable
from phalanx.runtime.driver.values import Values
from phalanx.runtime.driver.waiting import Waiting

ALLOW_OUT_OF_BAND = "RAY_allow_out_of_band_object_ref_serialization"
"""Ray's environment variable: 0 forbids to pickle references by hand."""


class ReferenceHooks:
    """Takes the lock around the machines, as user code calls from any thread."""

    def __init__(
        self,
        lock: AbstractContextManager[Any],
        references: References,
        objects: ObjectTable,
        values: Values,
        waiting: Waiting,
        abandoned: deque[Stream],
        kick: Callable[[], None],
    ) -> None:
        """`kick` has what was posted leave soon."""
        self._lock = lock
        self._references = references
        self._objects = objects
        self._values = values
        self._waiting = waiting
        self.abandoned = abandoned
        self._kick = kick
        self._held_back: list[Callable[[], None]] | None = None

    @contextmanager
    def lock_without_callbacks(self) -> Iterator[None]:
        """The lock, for what may complete objects on a thread of the user's: who is called back
        may ask the node, which waits for a thread that wants the lock. So that comes after it."""
        due: list[Callable[[], None]] = []
        with self._lock:
            before, self._held_back = self._held_back, due
            try:
                yield
            finally:
                self._held_back = before
        for callback in due:
            callback()

    def _call_back(self, callback: Callable[[], None]) -> None:
        if self._held_back is None:
            callback()
        else:
            self._held_back.append(callback)

    # ---- RefHooks ----------------------------------------------------------------------------

    def adopt(self, owner: bytes, number: int) -> ObjectRef[Any]:
        """The one ObjectRef of this process for that object."""
        with self._lock:
            return self._references.adopt(owner, number)

    def export(self, ref: ObjectRef[Any]) -> None:
        """The reference leaves inside a value."""
        self._references.export(ref)

    def pin_forever(self, ref: ObjectRef[Any]) -> None:
        """See RefHooks."""
        if os.environ.get(ALLOW_OUT_OF_BAND, "1") == "0":
            raise OutOfBandSerializationError(
                f"ObjectRef({ref.hex()}) is pickled outside of arguments and results, where nobody "
                f"follows it, and {ALLOW_OUT_OF_BAND}=0 forbids that."
            )
        with self._lock:
            self._references.pin_forever(ref)

    def on_ready(self, ref: ObjectRef[Any], callback: Callable[[], None]) -> None:
        """Call back once the object is there."""
        with self._lock:
            if ref._value is None:
                self._objects.add_waiter(ref, Callback(partial(self._call_back, callback)))
                self._objects.fetch(ref)
                self._kick()
                return
        callback()

    def value_of(self, ref: ObjectRef[Any]) -> Any:
        """The value of a ready reference; raises its error, or Vanished."""
        return self._values.read(ref)

    # ---- StreamHooks -------------------------------------------------------------------------

    def wait_stream(self, stream: Stream, index: int, timeout_s: float | None) -> bool:
        """Wait until item `index` is there or the stream ended. False: time is up."""
        return self._waiting.wait_stream(stream, index, timeout_s)
