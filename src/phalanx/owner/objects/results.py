"""Completes the references of tasks and calls with their results."""

from __future__ import annotations

from phalanx.owner.objects.reconstruction import Reconstruction
from phalanx.owner.objects.streams import Streams
from phalanx.owner.objects.table import ObjectTable
from phalanx.owner.objects.unread import UnreadFailures
from phalanx.owner.work import PendingWork
from phalanx.protocol.messages import Done, Payload, Value


class Results:
    """Completes the references of work that has ended."""

    def __init__(
        self,
        objects: ObjectTable,
        reconstruction: Reconstruction,
        streams: Streams,
        unread: UnreadFailures,
    ) -> None:
        self._objects = objects
        self._reconstruction = reconstruction
        self._streams = streams
        self._unread = unread

    def deliver(self, work: PendingWork, returns: int, message: Done, source: bytes) -> None:
        """Deliver the results of work that ran in process `source`."""
        objects, reconstruction = self._objects, self._reconstruction
        if returns == 1:
            value = message.value
            maker = None
            if type(value) is not bytes:
                maker = reconstruction.maker(work, (value,))
            if reconstruction.running:
                reconstruction.finished(work)
            objects.complete(work.refs[0], value, source, maker)
        elif work.stream is not None:
            self._streams.end(work, None)
        else:
            results = [message.value, *message.more]
            maker = reconstruction.maker(work, results)
            reconstruction.finished(work)
            for ref, value in zip(work.refs, results, strict=False):
                objects.complete(ref, value, source, maker)

    def deliver_first(self, work: PendingWork, values: list[Payload], source: bytes) -> None:
        """Deliver the results that the work returned before it failed. The failure becomes the
        value of all other results.
        """
        for ref, value in zip(work.refs, values, strict=False):
            self._objects.complete(ref, value, source)
        del work.refs[: len(values)]

    def discard(self, message: Done, source: bytes) -> None:
        """Release everything that the results in a message hold, because nobody wants them."""
        self.discard_values(message.number, [message.value, *message.more], source)

    def discard_values(self, number: int, values: list[Payload], source: bytes) -> None:
        """Release everything that these results of work `number` hold, because nobody wants
        them.
        """
        for value in values:
            self._objects.discard(value, source, number)

    def fail(self, work: PendingWork, error: Value) -> None:
        """Fail work that has no results: this failure becomes the value of each of the work's
        references.
        """
        if work.stream is not None:
            refs = self._streams.end(work, error)
            if not work.cancelled:
                self._unread.watch(refs, error)
            return
        self._reconstruction.finished(work)
        if not work.cancelled:
            self._unread.watch(work.refs, error)
        for ref in work.refs:
            self._objects.complete(ref, error)
