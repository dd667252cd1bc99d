"""Objects of this process that got lost, and what makes them again: the shell of `owner.lineage`.

An object is found to be lost when somebody reads it (its file is not there), or when its node is
said to be gone. The first only marks it: it is made again when somebody waits for it, by running
its task once more under the same number. Every method is called with the runtime's lock held.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakValueDictionary

import msgspec

from phalanx.errors import ObjectReconstructionFailedError
from phalanx.model.ids import INDEX_BITS, MAX_INDEX, object_id_bytes
from phalanx.model.lifecycle import DEAD
from phalanx.objects import failures
from phalanx.objects.reference import ObjectRef, make_ref
from phalanx.owner.actors.client import ActorClient, PendingCall
from phalanx.owner.objects.lineage import (
    Lineage,
    Lost,
    Remembered,
    Unmakeable,
    lost_error,
    no_retries,
    put_by,
)
from phalanx.owner.tasks.records import PendingTask, Template
from phalanx.protocol.messages import SHARED, Payload, Value

if TYPE_CHECKING:
    from phalanx.engines.embedded.client.runtime import Runtime

Maker = Remembered | Unmakeable
Work = PendingTask | PendingCall


class _Method(NamedTuple):
    """What a call is besides its arguments."""

    actor: ActorClient
    method: str
    returns: int
    group: str
    retry_exceptions: Any


class _Run:
    """A remembered task or call that is running."""

    __slots__ = ("late", "record", "work")

    def __init__(self, record: Remembered, work: Work) -> None:
        self.record = record
        self.work = work
        self.late: list[ObjectRef[Any]] = []
        """Items of a stream that were lost while it ran."""


class RemadeStream:
    """Takes a generator's items when it runs once more: only lost ones are wanted."""

    def __init__(self, record: Remembered, first: int) -> None:
        self._record = record
        self.first = first
        """The object number before the first item's."""

    def slot(self, index: int) -> ObjectRef[Any]:
        """The lost reference of item `index`, or one that nobody holds."""
        return _wanted(self._record, self.first + index)

    def arrived(self, index: int) -> None:
        """Item `index` has its value."""

    def left(self) -> list[ObjectRef[Any]]:
        """Items that are still lost."""
        return [ref for ref in self._record.refs.values() if type(ref._hold) is Lost]


class Reconstruction:
    """Remembers finished work with large results, and runs it again."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self.lineage = Lineage()
        self.running: dict[int, _Run] = {}
        self._needed: deque[ObjectRef[Any]] = deque()
        self._is_busy = False
        self.files: WeakValueDictionary[str, ObjectRef[Any]] = WeakValueDictionary()
        """Our objects in shared memory, by the names of their files."""

    # ---- remembering -------------------------------------------------------------------------

    def maker(self, work: Work, payloads: Sequence[Payload]) -> Maker | None:
        """What makes the results of this work again; None when none of them can get lost."""
        for payload in payloads:
            if type(payload) is not bytes and payload.kind == SHARED:  # type: ignore[union-attr]
                return self._maker(work)
        return None

    def _maker(self, work: Work) -> Maker:
        run = self.running.get(work.number)
        if run is not None:
            return run.record
        spec: Template | _Method
        if isinstance(work, PendingTask):
            spec = work.template
            name, option, allowed = f"task {spec.name}", "max_retries", spec.max_retries
        else:
            spec = _Method(work.actor, work.method, work.returns, work.group, work.retry_exceptions)
            name, option = f"call {work.actor.name}.{work.method}", "max_task_retries"
            allowed = work.retries if work.retries < 0 else work.retries + work.attempt
        if work.retries == 0:
            return no_retries(name, allowed, option)
        record = self.lineage.remember(
            self._runtime.process_id,
            work.number,
            name,
            spec,
            work.args,
            work.inputs,
            work.pins,
            (work.retries, allowed, option),
            work.attempt,
        )
        for ref in work.refs:
            record.made(ref)
        if work.stream is not None:
            self.running[work.number] = _Run(record, work)
        return record

    def finished(self, work: Work) -> None:
        """The work gave its results, or failed; before its references are completed."""
        run = self.running.pop(work.number, None)
        if run is not None:
            run.record.retries = work.retries
            run.record.attempt = work.attempt
            for ref in run.late:
                self.need(ref)

    def end_stream(self, work: Work, error: Value | None) -> None:
        """A generator that ran once more has ended: what is still lost does not come."""
        late = self.running[work.number].late
        for ref in work.stream.left():
            if ref in late:
                continue  # it came, and was lost again
            why = Unmakeable("items", "its generator gave fewer items when it ran again.")
            failure = error or failures.failed(lost_error(ref._owner, ref._number, why))
            ref._hold = None
            self._runtime.values.complete(ref, failure)
        self.finished(work)

    # ---- losing ------------------------------------------------------------------------------

    def lost(self, ref: ObjectRef[Any], name: str) -> None:
        """The file `name` of this object of ours is gone. Nothing happens when it is not its
        file any more: then somebody else has said so before."""
        payload = ref._value
        if type(payload) is not Value or payload.kind != SHARED or payload.data.decode() != name:
            return
        maker: Maker = ref._hold.lineage or put_by(ref._owner)
        why = self._why_not(maker)
        self._runtime.values.forget_value(ref)
        if why is None:
            assert isinstance(maker, Remembered)
            ref._hold = Lost(maker)
        else:
            self._give_up(ref, why)

    def node_lost(self, prefix: bytes) -> None:
        """Every object is lost whose file's name begins with these bytes in hex."""
        start = prefix.hex()
        for name, ref in list(self.files.items()):
            if name.startswith(start):
                self.lost(ref, name)

    def _why_not(self, maker: Maker) -> Unmakeable | None:
        if isinstance(maker, Unmakeable):
            return maker
        work = maker.work
        if type(work) is _Method and work.actor.state == DEAD:
            why = f"{maker.name}, which made it, cannot run again: its actor is dead."
            return Unmakeable("actor", why)
        return maker.why_not()

    def _give_up(self, ref: ObjectRef[Any], why: Unmakeable) -> None:
        ref._hold = None
        error = lost_error(ref._owner, ref._number, why)
        self._runtime.values.complete(ref, failures.failed(error))

    # ---- making again ------------------------------------------------------------------------

    def need(self, ref: ObjectRef[Any]) -> None:
        """Somebody waits for this object of ours: when it is lost, its task runs again."""
        self._needed.append(ref)
        if self._is_busy:
            return  # asked for by a task that is being run again: lineages may be long
        self._is_busy = True
        try:
            while self._needed:
                self._remake(self._needed.popleft())
        finally:
            self._is_busy = False

    def _remake(self, ref: ObjectRef[Any]) -> None:
        hold = ref._hold
        if ref._value is not None or type(hold) is not Lost:
            return
        record = hold.lineage
        run = self.running.get(record.number)
        if run is not None:
            if run.work.stream is None:
                run.work.refs[(ref._number & MAX_INDEX) - 1] = ref
            else:
                run.late.append(ref)
            return
        why = self._why_not(record)
        if why is not None:
            self._give_up(ref, why)
            return
        record.charge()
        export = self._runtime.references.export
        inputs = None
        if record.inputs is not None:
            inputs = [source.revive(export) for source in record.inputs]
        pins = None
        if record.nested is not None:
            pins = [record.shared_args, [source.revive(export) for source in record.nested]]
        if type(record.work) is _Method:
            call = self._call(record, record.work, inputs, pins)
            self.running[record.number] = _Run(record, call)
            self._runtime.calls.submit(call, None)
        else:
            task = self._task(record, record.work, inputs, pins)
            self.running[record.number] = _Run(record, task)
            self._runtime.tasks.submit_again(task)

    def _task(
        self,
        record: Remembered,
        template: Template,
        inputs: list[ObjectRef[Any]] | None,
        pins: list[Any] | None,
    ) -> PendingTask:
        if template.returns < 0:
            # Nobody takes the items in turn: nothing may hold the generator back.
            template = msgspec.structs.replace(template, backpressure=-1)
        refs, stream = self._results(record, template.returns)
        task = PendingTask(record.number, template, record.args, inputs, pins, refs)
        task.stream = stream
        task.retries = record.retries
        task.attempt = record.attempt
        return task

    def _call(
        self,
        record: Remembered,
        method: _Method,
        inputs: list[ObjectRef[Any]] | None,
        pins: list[Any] | None,
    ) -> PendingCall:
        refs, stream = self._results(record, method.returns)
        call = PendingCall(
            record.number,
            method.actor,
            method.method,
            record.args,
            inputs,
            pins,
            refs,
            method.returns,
            record.retries,
            method.group,
        )
        call.retry_exceptions = method.retry_exceptions
        call.stream = stream
        call.attempt = record.attempt
        return call

    def _results(self, record: Remembered, returns: int) -> tuple[list[ObjectRef[Any]], Any]:
        base = record.number << INDEX_BITS
        if returns < 0:
            return [], RemadeStream(record, base + (1 if returns == -2 else 0))
        return [_wanted(record, base + i) for i in range(1, returns + 1)], None

    def inputs_lost(self, work: Work, names: Sequence[str]) -> Value | None:
        """A worker did not find these files of the work's arguments: they are asked for again.
        The failure, when the arguments themselves are gone and nobody can make them."""
        values = self._runtime.values
        for ref in work.inputs or ():
            value = ref._value
            if type(value) is Value and value.kind == SHARED and value.data.decode() in names:
                values.recover(ref, value.data.decode())
        args = work.args
        if type(args) is Value and args.kind == SHARED and args.data.decode() in names:
            me = self._runtime.process_id
            name = object_id_bytes(me, work.number << INDEX_BITS).hex()
            text = (
                f"The arguments of task {name[:48]} are lost: process {me.hex()} kept them in "
                "shared memory, and arguments given by value cannot be made again."
            )
            return failures.failed(ObjectReconstructionFailedError(name, text))
        return None


def _wanted(record: Remembered, number: int) -> ObjectRef[Any]:
    """The reference to fill with result `number`: the lost one, or one that nobody holds."""
    ref = record.refs.get(number)
    if ref is not None and ref._value is None and type(ref._hold) is Lost:
        return ref
    return make_ref(record.owner, number)
