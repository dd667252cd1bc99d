"""Reconstruction of lost objects of this process: their tasks run again under the same numbers.

An object is lost when a reader does not find its file, or when the node with the file is gone. At
first it is only marked as lost. When somebody waits for it, its task runs again, which uses up one
retry. Arguments that the program no longer holds are made again in the same way, once for all
results that are lost by then. No task runs more often than its declared retries allow.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from phalanx.model.ids import INDEX_BITS, MAX_INDEX
from phalanx.objects import failures
from phalanx.objects.reference import ObjectRef, make_ref
from phalanx.owner.objects.lineage import (
    SWITCHED_OFF,
    Lineage,
    LostHold,
    Maker,
    Remembered,
    Unmakeable,
    lost_error,
    no_retries,
    put_by,
)
from phalanx.owner.objects.lost_together import note_lost, take_others
from phalanx.owner.objects.references import References
from phalanx.owner.objects.table import ObjectTable, is_in_file
from phalanx.owner.work import PendingWork
from phalanx.protocol.messages import SHARED, Payload, Value


class _Run:
    """A run of remembered work."""

    __slots__ = ("late", "record", "work")

    def __init__(self, record: Remembered, work: PendingWork) -> None:
        self.record = record
        self.work = work
        self.late: list[ObjectRef[Any]] = []
        """Items of a stream that were lost during this run."""


class RemadeStream:
    """Receives the items of a generator that runs again. Items that were lost get their values
    back; the other items are dropped.
    """

    def __init__(self, record: Remembered, first: int) -> None:
        self._record = record
        self.first = first
        """The number of the first item's object, minus one."""

    def slot(self, index: int) -> ObjectRef[Any]:
        """Return the reference of item `index` if the item is lost; otherwise a new reference,
        which nobody keeps.
        """
        return _wanted(self._record, self.first + index)

    def arrived(self, index: int) -> None:
        """Do nothing: nobody waits for the next item."""

    def left(self) -> list[ObjectRef[Any]]:
        """Return the items that are still lost."""
        return [ref for ref in self._record.refs.values() if type(ref._hold) is LostHold]


class Reconstruction:
    """Remembers finished work with large results, and runs the work again when results are lost."""

    def __init__(
        self,
        me: bytes,
        references: References,
        objects: ObjectTable,
        run_again: Callable[[PendingWork], None],
    ) -> None:
        """`run_again` submits work that has run before."""
        self._me = me
        self._references = references
        self._objects = objects
        self._run_again = run_again
        self.lineage = Lineage()
        self.count = 0
        """How often work has run again."""
        self.makes_again = True
        """Whether lost objects are made again."""
        self.call_site: Callable[[ObjectRef[Any]], str] = lambda ref: ""
        """Returns where in the program an object was made; "" if that is not recorded."""
        self.running: dict[int, _Run] = {}
        """The runs in progress, by the number of the task or call."""
        self._needed: deque[ObjectRef[Any]] = deque()
        self._is_busy = False

    # ---- remembering -------------------------------------------------------------------------

    def maker(self, work: PendingWork, payloads: Sequence[Payload]) -> Maker | None:
        """Return the object that can make the results of this work again; None if none of them can
        get lost.
        """
        for payload in payloads:
            if type(payload) is not bytes and payload.kind == SHARED:  # type: ignore[union-attr]
                return self._maker(work)
        return None

    def _maker(self, work: PendingWork) -> Maker:
        run = self.running.get(work.number)
        if run is not None:
            return run.record
        if not self.makes_again:
            return SWITCHED_OFF
        recipe = work.recipe()
        if work.retries == 0:
            return no_retries(recipe)
        record = self.lineage.remember(self._me, work, recipe)
        for ref in work.refs:
            record.made(ref)
        if work.stream is not None:
            self.running[work.number] = _Run(record, work)
        return record

    def finished(self, work: PendingWork) -> None:
        """Handle the end of work. Call this before the references to the work's results are
        completed.
        """
        run = self.running.pop(work.number, None)
        if run is not None:
            run.record.retries = work.retries
            run.record.attempt = work.attempt
            for ref in run.late:
                self.need(ref)

    def cancelled(self, work: PendingWork) -> None:
        """Forget a cancelled generator. The items that it has yielded are not made again."""
        if work.number in self.running:
            self.lineage.cancelled(work.number)

    def end_stream(self, work: PendingWork, error: Value | None) -> None:
        """Fail the items that are still lost after a generator has run again."""
        late = self.running[work.number].late
        for ref in work.stream.left():
            if ref in late:
                continue  # the item has come, and was lost again
            why = Unmakeable("items", "its generator gave fewer items when it ran again.")
            failure = error or failures.failed(lost_error(ref._owner, ref._number, why))
            ref._hold = None
            self._objects.complete(ref, failure)
        self.finished(work)

    # ---- losing ------------------------------------------------------------------------------

    def lost(self, ref: ObjectRef[Any], name: str) -> None:
        """Mark an object of this process as lost, because its file `name` is gone.

        If the object has another file by now, the loss was reported before, and nothing is done.
        """
        if not is_in_file(ref, name):
            return
        ref._hold.seen = True  # a reader may still have found the file
        maker: Maker = ref._hold.lineage or put_by(ref._owner)
        self._objects.forget_value(ref)
        if isinstance(maker, Unmakeable):
            self._give_up(ref, maker)
        elif maker.number not in self.running and (why := maker.why_not()) is not None:
            self._give_up(ref, why)
        else:  # a run that has begun may still make the object, even if no retries are left
            ref._hold = LostHold(maker)
            note_lost(ref, maker)

    def _give_up(self, ref: ObjectRef[Any], why: Unmakeable) -> None:
        ref._hold = None
        error = lost_error(ref._owner, ref._number, why, self.call_site(ref))
        self._objects.complete(ref, failures.failed(error))

    # ---- making again ------------------------------------------------------------------------

    def need(self, ref: ObjectRef[Any]) -> None:
        """Make this object again if it is lost, because somebody waits for it."""
        self._needed.append(ref)
        if self._is_busy:
            # an input of work that is run again; there is no recursion, because lineages may be
            # long
            return
        self._is_busy = True
        try:
            while self._needed:
                self._remake(self._needed.popleft())
        finally:
            self._is_busy = False

    def _remake(self, ref: ObjectRef[Any]) -> None:
        hold = ref._hold
        if ref._value is not None or type(hold) is not LostHold:
            return
        record = hold.lineage
        run = self.running.get(record.number)
        if run is not None:
            if run.work.stream is None:
                run.work.refs[(ref._number & MAX_INDEX) - 1] = ref
            else:
                run.late.append(ref)
            return
        why = record.why_not()
        if why is not None:
            self._give_up(ref, why)
            return
        self._needed.extend(take_others(record))
        record.charge()
        export = self._references.export
        inputs = pins = None
        if record.inputs is not None:
            inputs = [source.revive(export) for source in record.inputs]
        if record.nested is not None:
            pins = [record.shared_args, [source.revive(export) for source in record.nested]]
        work = record.renew(inputs, pins)
        base, returns = record.number << INDEX_BITS, record.recipe.returns
        if returns < 0:
            work.stream = RemadeStream(record, base + (1 if returns == -2 else 0))
        else:
            work.refs = [_wanted(record, base + i) for i in range(1, returns + 1)]
        self.running[record.number] = _Run(record, work)
        self.count += 1
        self._run_again(work)


def _wanted(record: Remembered, number: int) -> ObjectRef[Any]:
    """Return the reference of result `number` if the result is lost; otherwise a new reference,
    which nobody keeps.
    """
    ref = record.refs.get(number)
    if ref is not None and ref._value is None and type(ref._hold) is LostHold:
        return ref
    return make_ref(record.owner, number)
