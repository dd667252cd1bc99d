"""The outcome of a task or call, put into the references that stand for it."""

from __future__ import annotations

from phalanx.owner.objects.reconstruction import Reconstruction
from phalanx.owner.objects.streams import Streams
from phalanx.owner.objects.table import ObjectTable
from phalanx.owner.work import PendingWork
from phalanx.protocol.messages import Done, Value


class Results:
    """Completes the references of work that has ended."""

    def __init__(
        self, objects: ObjectTable, reconstruction: Reconstruction, streams: Streams
    ) -> None:
        self._objects = objects
        self._reconstruction = reconstruction
        self._streams = streams

    def deliver(self, work: PendingWork, returns: int, message: Done, source: bytes) -> None:
        """The work gave its results. `source`: the process that ran it."""
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

    def discard(self, message: Done, source: bytes) -> None:
        """Nobody waits for these results: free what they hold."""
        for value in (message.value, *message.more):
            self._objects.discard(value, source, message.number)

    def fail(self, work: PendingWork, error: Value) -> None:
        """The work is over without results: each reference stands for this failure."""
        if work.stream is not None:
            self._streams.end(work, error)
            return
        self._reconstruction.finished(work)
        for ref in work.refs:
            self._objects.complete(ref, error)
