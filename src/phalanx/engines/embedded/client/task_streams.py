"""The streams of generator tasks and methods: begun with the task, fed by its items, ended by it.

Every function is called with the runtime's lock held, except `begin_stream`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from phalanx.engines.embedded.client.reconstruction import RemadeStream
from phalanx.errors import ObjectRefStreamEndOfStreamError
from phalanx.model.ids import INDEX_BITS
from phalanx.objects import failures
from phalanx.objects.reference import make_ref
from phalanx.objects.streams import Stream
from phalanx.owner.objects.lineage import Remembered
from phalanx.owner.tasks.records import PendingTask
from phalanx.protocol.messages import Consumed, Item, Value

if TYPE_CHECKING:
    from phalanx.engines.embedded.client.runtime import Runtime


def begin_stream(runtime: Runtime, stream: Stream, task: Any) -> None:
    """Tie a stream to its task or call."""
    base = task.number << INDEX_BITS
    completion = make_ref(runtime.process_id, base)
    completion._task = task.number
    stream.number = task.number
    stream.first = base + (1 if task.refs else 0)
    stream.completion = completion
    stream.on_ended = lambda: runtime.values.complete(completion, failures.NONE)
    task.stream = stream
    backpressure = getattr(task, "backpressure", None) or task.template.backpressure
    if backpressure > 0:
        stream.on_consumed = lambda index: _consumed(runtime, task, index)


def _consumed(runtime: Runtime, task: Any, index: int) -> None:
    worker = task.worker if isinstance(task, PendingTask) else task.actor
    if worker is not None and worker.connection is not None:
        runtime.post(worker.connection, Consumed(task.number, index))


def stream_item(runtime: Runtime, task: Any, message: Item, source: bytes) -> None:
    """Put one value into its task's or call's stream."""
    ref = task.stream.slot(message.index)
    if ref._value is not None:  # a retry gives the same items again
        runtime.values.discard(message.value, source, message.number)
        return
    maker = runtime.values.reconstruction.maker(task, (message.value,))
    if isinstance(maker, Remembered) and type(task.stream) is Stream:
        maker.made(ref)
    runtime.values.complete(ref, message.value, source, maker)
    task.stream.arrived(message.index)


def end_stream(runtime: Runtime, task: Any, error: Value | None) -> None:
    """A generator has ended, well or with an error (which is its last item)."""
    stream = task.stream
    if type(stream) is RemadeStream:
        runtime.values.reconstruction.end_stream(task, error)
        return
    runtime.values.reconstruction.finished(task)
    if task.refs:
        # "dynamic": one reference whose value holds the references of all items.
        ref = task.refs[0]
        if error is not None:
            runtime.values.complete(ref, error)
            return
        payload, hold, inner = runtime.values.pack(stream.as_dynamic())
        ref._hold = hold
        ref._inner = inner
        runtime.values.complete(ref, payload)
        return
    if error is not None:
        index = stream.next_free()
        ref = stream.slot(index)
        runtime.values.complete(ref, error)
        stream.arrived(index)
    over = ObjectRefStreamEndOfStreamError("The stream has no further item.")
    for ref in stream.ended():
        runtime.values.complete(ref, failures.failed(over))
