"""The streams of generator tasks and methods. A stream gets its items from its work, and ends with
it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from phalanx.errors import ObjectRefStreamEndOfStreamError
from phalanx.model.ids import INDEX_BITS
from phalanx.objects import failures
from phalanx.objects.file_hold import FileHold
from phalanx.objects.reference import ObjectRef, make_ref
from phalanx.objects.streams import Stream
from phalanx.owner.objects.lineage import Remembered
from phalanx.owner.objects.reconstruction import Reconstruction, RemadeStream
from phalanx.owner.objects.table import ObjectTable
from phalanx.owner.transport import Outbox
from phalanx.owner.work import CANCELLED, FORCED, PendingWork
from phalanx.protocol.messages import Consumed, Item, Payload, Value

Pack = Callable[[Any], tuple[Payload, FileHold | None, list[ObjectRef[Any]] | None]]
"""Packs a value. Returns three parts: the payload, the hold on the value's file, and the references
in the value.
"""


class Streams:
    """Connects streams with the work that produces their items."""

    def __init__(
        self,
        me: bytes,
        objects: ObjectTable,
        reconstruction: Reconstruction,
        outbox: Outbox,
        pack: Pack,
    ) -> None:
        self._me = me
        self._objects = objects
        self._reconstruction = reconstruction
        self._outbox = outbox
        self._pack = pack

    def begin(self, stream: Stream, work: PendingWork, backpressure: int) -> None:
        """Add the items of this work to the stream from now on.

        `backpressure`: how many items the generator may be ahead of its reader; a negative number
        sets no limit.
        """
        base = work.number << INDEX_BITS
        completion = make_ref(self._me, base)
        stream.number = work.number
        stream.first = base + (1 if work.refs else 0)
        stream.completion = completion
        work.stream = stream
        if backpressure > 0:
            stream.on_taken = lambda: self._report_taken(work, stream)

    def _report_taken(self, work: PendingWork, stream: Stream) -> None:
        connection = work.connection
        if connection is not None:
            self._outbox.post(connection, Consumed(work.number, stream.taken_to))

    def item(self, work: PendingWork, message: Item, source: bytes) -> None:
        """Add one value to the stream of its work."""
        stream = work.stream
        if type(stream) is Stream and message.index <= stream.taken_to:
            # A retry produces the same items again, and waits for the reader just as before.
            self._objects.discard(message.value, source, message.number)
            if stream.on_taken is not None:
                stream.on_taken()
            return
        ref = stream.slot(message.index)
        if ref._value is not None:
            self._objects.discard(message.value, source, message.number)
            return
        maker = self._reconstruction.maker(work, (message.value,))
        if isinstance(maker, Remembered) and type(stream) is Stream:
            maker.made(ref)
        self._objects.complete(ref, message.value, source, maker)
        stream.arrived(message.index)

    def end(self, work: PendingWork, error: Value | None) -> list[ObjectRef[Any]]:
        """End a stream whose generator has ended. An error becomes the last item.

        Returns the references whose value is that error.
        """
        stream = work.stream
        if type(stream) is RemadeStream:
            self._reconstruction.end_stream(work, error)
            return []
        if error is not None and work.cancelled in (CANCELLED, FORCED):
            self._reconstruction.cancelled(work)
        self._reconstruction.finished(work)
        stream.on_taken = None
        complete = self._objects.complete
        if work.refs:
            # for "dynamic": the value of one reference holds the references of all items
            ref = work.refs[0]
            if error is not None and not failures.is_raised(error):
                complete(ref, error)
                return [ref]
            if error is not None:  # as in Ray, only the last of the references fails
                index = stream.next_free()
                complete(stream.slot(index), error)
                stream.arrived(index)
            payload, hold, inner = self._pack(stream.as_dynamic())
            ref._hold = hold
            ref._inner = inner
            complete(ref, payload)
            return []
        failed = []
        if error is not None:
            index = stream.next_free()
            failed = [stream.slot(index), stream.completion]
            complete(failed[0], error)
            stream.arrived(index)
        left = stream.end()
        complete(stream.completion, failures.NONE if error is None else error)
        over = ObjectRefStreamEndOfStreamError("The stream has no further item.")
        for ref in left:
            complete(ref, failures.failed(over))
        return failed
