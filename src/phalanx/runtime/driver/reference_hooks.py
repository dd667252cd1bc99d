"""The hooks through which references, and generators of references, use their process."""

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
"""Ray's environment variable; 0 forbids pickling references by hand."""


class ReferenceHooks:
    """The hooks, which user code may call on any thread. Each takes the lock that guards the
    owner's machines.
    """

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
        """`kick` makes some thread send posted messages soon."""
        self._lock = lock
        self._references = references
        self._objects = objects
        self._values = values
        self._waiting = waiting
        self.abandoned = abandoned
        self._kick = kick
        self._held_back: list[Callable[[], None]] | None = None
        self.call_site: Callable[[ObjectRef[Any]], str] = lambda ref: ""
        """Returns where in the program an object was made; replaced if places are recorded."""

    @contextmanager
    def lock_without_callbacks(self) -> Iterator[None]:
        """Hold the owner's lock in a thread of the user, for a change that may complete objects.

        Callbacks of these objects run only after the lock is released. A callback may send a
        request to the node, and whichever thread handles the answer needs the lock.
        """
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
        """Return this process's one ObjectRef for an object. It is made if there is none."""
        with self._lock:
            return self._references.adopt(owner, number)

    def export(self, ref: ObjectRef[Any]) -> None:
        """Note that a value with this reference in it leaves this process."""
        self._references.export(ref)

    def pin_forever(self, ref: ObjectRef[Any]) -> None:
        """Keep the object forever, because the user's own code pickles its reference, so that
        nobody can count the copies. Raises OutOfBandSerializationError if ALLOW_OUT_OF_BAND forbids
        that.
        """
        if os.environ.get(ALLOW_OUT_OF_BAND, "1") == "0":
            raise OutOfBandSerializationError(
                f"ObjectRef({ref.hex()}) is pickled outside of arguments and results, where nobody "
                f"can track it, and {ALLOW_OUT_OF_BAND}=0 forbids that."
            )
        with self._lock:
            self._references.pin_forever(ref)

    def on_ready(self, ref: ObjectRef[Any], callback: Callable[[], None]) -> None:
        """Call `callback` once the object is ready."""
        with self._lock:
            if ref._value is None:
                self._objects.add_waiter(ref, Callback(partial(self._call_back, callback)))
                self._objects.fetch(ref)
                self._kick()
                return
        callback()

    def value_of(self, ref: ObjectRef[Any]) -> Any:
        """Return the value of a ready reference. Raises the reference's error, or Vanished."""
        return self._values.read(ref)

    # ---- StreamHooks -------------------------------------------------------------------------

    def wait_stream(self, stream: Stream, index: int, timeout_s: float | None) -> bool:
        """Wait until item `index` is ready or the stream has ended. Returns False if the time is
        up.
        """
        return self._waiting.wait_stream(stream, index, timeout_s)
