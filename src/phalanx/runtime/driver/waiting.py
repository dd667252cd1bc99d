"""Waits for objects: the operations `get` and `wait`, in the calling thread. Callers must not hold
the lock.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from typing import Any, NoReturn, Protocol

from phalanx.errors import GetTimeoutError
from phalanx.objects.reference import ObjectRef, Vanished, ended_processes
from phalanx.objects.serialization import deserialize, deserialize_all
from phalanx.objects.streams import Stream
from phalanx.owner.objects.references import References
from phalanx.owner.objects.table import ObjectTable
from phalanx.owner.objects.unread import mark_read
from phalanx.owner.tasks.submission import Submission
from phalanx.protocol.messages import FAILED, Payload, Value
from phalanx.runtime.driver import interrupts
from phalanx.runtime.driver.reactor import Reactor, Waiter
from phalanx.runtime.driver.values import Values
from phalanx.runtime.os.own_time import own_time

_PATIENCE_S = 0.002
"""Seconds after which a waiting task lends its CPUs to other tasks."""
_ANSWER_S = 0.02
"""Seconds after which a task that waits for objects of other processes lends its CPUs. This is
longer than _PATIENCE_S, because the owners of objects that are ready may take this long to answer.
"""


class WaitingTask(Protocol):
    """The task that the calling thread runs."""

    interrupt_due: bool
    """Whether the task must be interrupted before it sees the objects for which it waited."""

    def raise_interrupt(self) -> NoReturn:
        """Interrupt the task now."""
        ...

    def block(self) -> bool:
        """Mark the task as waiting. Returns whether the thread runs a task."""
        ...

    def unblock(self) -> None:
        """Mark the task as running again."""
        ...


class Waiting:
    """Waits for objects, for any thread of this process."""

    def __init__(
        self,
        me: bytes,
        reactor: Reactor,
        lock: AbstractContextManager[Any],
        flush: Callable[[], None],
        objects: ObjectTable,
        references: References,
        tasks: Submission,
        values: Values,
        name_of: Callable[[ObjectRef[Any]], str],
        why_absent: Callable[[ObjectRef[Any]], str],
    ) -> None:
        """`name_of` returns a name of an object for display. `why_absent` returns a clause that
        says why the object is not ready, or "". Both are called under the lock.
        """
        self._name_of = name_of
        self._why_absent = why_absent
        self._me = me
        self._reactor = reactor
        self._lock = lock
        self._flush = flush
        self._objects = objects
        self._references = references
        self._tasks = tasks
        self._values = values
        self.running: WaitingTask | None = None
        """The interface to the task that the calling thread runs; None in drivers."""

    # ---- get ---------------------------------------------------------------------------------

    def get_many(self, refs: list[ObjectRef[Any]], timeout_s: float | None) -> list[Any]:
        """Return all values, in order. Raises the error of the first failed object, or
        GetTimeoutError.
        """
        if ended_processes:
            check_session(refs)
        deadline = None if timeout_s is None else own_time() + timeout_s
        missing = [ref for ref in refs if ref._value is None]
        if missing and len(missing) < len(refs):
            # An object that has failed already ends the wait for the others.
            self._raise_first(refs, deadline)
        if missing and not self._wait(missing, len(missing), timeout_s, fail_fast=True):
            self._raise_late(refs, timeout_s)
        values = [ref._value for ref in refs]
        if set(map(type, values)) == {bytes}:
            return deserialize_all(values)  # type: ignore[arg-type]
        if missing:
            self._raise_first(refs, deadline)
        try:
            return [
                deserialize(value)
                if type(value := ref._value) is bytes
                else self._read(ref, deadline)
                for ref in refs
            ]
        except BaseException:
            for ref in refs:  # one error is raised for all objects
                mark_read(ref)
            raise

    def get_raw(self, refs: list[ObjectRef[Any]], timeout_s: float | None) -> list[Payload]:
        """Wait as `get_many` does, and return payloads without files. If an object has failed, only
        its payload is returned. Raises GetTimeoutError.
        """
        deadline = None if timeout_s is None else own_time() + timeout_s
        missing = [ref for ref in refs if ref._value is None]
        if missing and _failed(refs) is None:
            is_there = self._wait(missing, len(missing), timeout_s, fail_fast=True)
            if not is_there and _failed(refs) is None:
                self._raise_late(refs, timeout_s)
        found = []
        for ref in refs if (failed := _failed(refs)) is None else [failed]:
            while True:
                try:
                    found.append(self._values.read_raw(ref))
                    break
                except Vanished:
                    left_s = None if deadline is None else max(deadline - own_time(), 0.0)
                    if not self._wait([ref], 1, left_s):
                        self._raise_late(refs, timeout_s)
        if failed is not None:
            for ref in refs:  # one error is raised for all objects
                mark_read(ref)
        return found

    def _raise_late(self, refs: list[ObjectRef[Any]], timeout_s: float | None) -> NoReturn:
        left = [ref for ref in refs if ref._value is None]
        first = f" The first of them is {self._tell(left[0])}." if left else ""
        raise GetTimeoutError(
            f"Get timed out: {len(left)} of {len(refs)} objects were not ready after "
            f"{timeout_s} s.{first}"
        )

    def _tell(self, ref: ObjectRef[Any], absent: str = "") -> str:
        """Return a sentence about an object: its name, then the text `absent`, then the reason why
        it is not ready, if one is known.
        """
        with self._lock:
            name, why = self._name_of(ref), self._why_absent(ref)
        return f"{name}{absent}: {why}" if why else f"{name}{absent}"

    def _raise_first(self, refs: list[ObjectRef[Any]], deadline: float | None) -> None:
        for ref in refs:
            value = ref._value
            if type(value) is Value and value.kind == FAILED:
                for each in refs:  # as in the case above
                    mark_read(each)
                self._read(ref, deadline)

    def get_one(self, ref: ObjectRef[Any], timeout_s: float | None) -> Any:
        """Return one value. Raises its error, or GetTimeoutError."""
        if ended_processes:
            check_session([ref])
        deadline = None if timeout_s is None else own_time() + timeout_s
        if ref._value is None and not self._wait([ref], 1, timeout_s):
            raise GetTimeoutError(
                f"Get timed out: {self._tell(ref, f' was not ready after {timeout_s} s')}."
            )
        value = ref._value
        return deserialize(value) if type(value) is bytes else self._read(ref, deadline)

    def _read(self, ref: ObjectRef[Any], deadline: float | None) -> Any:
        """Return the value of a ready object. If the object was lost, wait for it again."""
        while True:
            try:
                return self._values.read(ref, deadline)
            except Vanished:
                left = None if deadline is None else max(deadline - own_time(), 0.0)
                if not self._wait([ref], 1, left):
                    raise GetTimeoutError(
                        f"Get timed out: {self._tell(ref, ' was lost and is being made again')}."
                    ) from None

    # ---- wait --------------------------------------------------------------------------------

    def wait_some(
        self, refs: list[ObjectRef[Any]], count: int, timeout_s: float | None, fetch: bool
    ) -> tuple[list[ObjectRef[Any]], list[ObjectRef[Any]]]:
        """Return (ready, not ready), both in the given order. At most `count` objects are ready.

        With `fetch`, a large object is brought to this node, and is ready once it is here.
        """
        started = own_time() if fetch and timeout_s else 0.0
        ready = _first_ready(refs, count)
        if len(ready) < count:
            missing = [ref for ref in refs if ref._value is None]
            self._wait(missing, count - (len(refs) - len(missing)), timeout_s)
            ready = _first_ready(refs, count)
        if fetch and any(self._values.is_away(refs[i]) for i in ready):
            ready = self._bring(refs, count, timeout_s and started + timeout_s)
        for i in ready:
            if refs[i]._hold is not None:
                mark_read(refs[i])
        if len(ready) == 1:
            at = ready[0]
            return [refs[at]], refs[:at] + refs[at + 1 :]
        chosen = set(ready)
        return [refs[i] for i in ready], [r for i, r in enumerate(refs) if i not in chosen]

    def _bring(self, refs: list[ObjectRef[Any]], count: int, deadline: float | None) -> list[int]:
        """Copy to this node objects that other nodes have, until `count` of `refs` are here.

        Returns the positions of the objects that are here. Waits until `deadline` on the monotonic
        clock; 0 means no wait.
        """
        asked: set[int] = set()
        answered: set[int] = set()
        waiter = Waiter()

        def came(place: int) -> None:
            answered.add(place)
            waiter.finish()

        while True:
            waiter = Waiter()
            ready = _first_ready(refs, len(refs))
            away = {i for i in ready if i not in answered and self._values.is_away(refs[i])}
            here = [i for i in ready if i not in away][:count]
            is_late = deadline is not None and own_time() >= deadline
            missing = [ref for ref in refs if ref._value is None]
            with self._lock:
                for i in away - asked:
                    self._values.bring(refs[i], partial(came, i))
                asked |= away
                if len(here) < count and not is_late:
                    for ref in missing:
                        self._objects.add_waiter(ref, waiter)
                        self._objects.fetch(ref)
            self._flush()
            if len(here) >= count or is_late:
                return here
            self._wait_in_task(waiter, deadline)
            self._forget(missing, waiter)

    def wait_for(self, ref: ObjectRef[Any]) -> None:
        """Wait until an object is ready, with a value or an error. The waiting thread keeps its
        CPUs."""
        waiter = Waiter()
        with self._lock:
            if ref._value is not None:
                return
            self._objects.add_waiter(ref, waiter)
            self._objects.fetch(ref)
        self._flush()
        self._reactor.wait(waiter)

    def wait_synced(self, processes: set[bytes]) -> None:
        """Wait until these processes have handled everything that was sent to them so far."""
        waiter = Waiter()
        with self._lock:
            self._references.syncs.after(processes, waiter.finish)
        self._flush()
        self._reactor.wait(waiter)

    def wait_stream(self, stream: Stream, index: int, timeout_s: float | None) -> bool:
        """Wait until item `index` of a stream is ready or the stream has ended. Returns False if
        the time is up.
        """
        deadline = None if timeout_s is None else own_time() + timeout_s
        while True:
            waiter = Waiter()
            with self._lock:
                is_there = stream.arrived_to >= index or stream.is_ended
                if not is_there:
                    stream.waiters.append(waiter.finish)
            self._flush()
            if is_there:
                return True
            while not self._reactor.wait(waiter, deadline):
                if deadline is not None and own_time() >= deadline:
                    return stream.arrived_to >= index or stream.is_ended

    def _wait(
        self,
        missing: list[ObjectRef[Any]],
        needed: int,
        timeout_s: float | None,
        fail_fast: bool = False,
    ) -> bool:
        """Wait until `needed` of `missing` are ready. With `fail_fast`, one failed object also ends
        the wait. Returns False if the time is up before.
        """
        if timeout_s is not None and timeout_s <= 0:
            return self._poll(missing, needed)
        waiter = Waiter(needed, fail_fast)
        if ended_processes:
            check_session(missing)
        with self._lock:
            has_own = self._await(missing, waiter)
        try:
            self._flush()
            if waiter.done:
                return True
            if self._tasks.locality.is_used:
                self._tasks.waited_for(missing)
            deadline = None if timeout_s is None else own_time() + timeout_s
            patience_s = _PATIENCE_S if has_own else _ANSWER_S
            return self._wait_in_task(waiter, deadline, patience_s)
        finally:
            if not waiter.done or len(missing) > needed:
                self._forget(missing, waiter)

    def _await(self, missing: list[ObjectRef[Any]], waiter: Waiter) -> bool:
        """Register `waiter` for these objects, and request those that must come from elsewhere.
        Returns whether this process owns any of them.
        """
        fetch, me = self._objects.fetch, self._me
        has_own = False
        alone = (waiter,)
        for ref in missing:
            if ref._value is not None:
                waiter.notify()
            elif ref._waiters is None:
                ref._waiters = alone
            else:
                ref._waiters = [*ref._waiters, waiter]
            is_own = ref._owner == me
            has_own = has_own or is_own
            if not is_own or ref._hold is not None:
                fetch(ref)
        return has_own

    def _wait_in_task(
        self, waiter: Waiter, deadline: float | None, patience_s: float = _PATIENCE_S
    ) -> bool:
        """Wait. In a task, lend the task's CPUs if the wait is longer than `patience_s`."""
        running = self.running
        if running is None:
            interrupts.guard()
            return self._reactor.wait(waiter, deadline)
        patience = own_time() + patience_s
        first = patience if deadline is None else min(patience, deadline)
        if self._reactor.wait(waiter, first):
            self._interrupt_first(running)
            return True
        if first == deadline:
            return False
        blocked = running.block()
        try:
            is_there = self._reactor.wait(waiter, deadline)
        finally:
            if blocked:
                running.unblock()
        self._interrupt_first(running)
        return is_there

    def _interrupt_first(self, running: WaitingTask) -> None:
        if running.interrupt_due and threading.current_thread() is threading.main_thread():
            running.raise_interrupt()

    def _poll(self, missing: list[ObjectRef[Any]], needed: int) -> bool:
        """Handle the messages that have arrived, without waiting. Returns whether `needed` of
        `missing` are ready.
        """
        with self._lock:
            for ref in missing:
                self._objects.fetch(ref)
        self._flush()
        self._reactor.wait(Waiter(), own_time())
        return sum(ref._value is not None for ref in missing) >= needed

    def _forget(self, refs: list[ObjectRef[Any]], waiter: Waiter) -> None:
        with self._lock:
            for ref in refs:
                if ref._waiters is not None and waiter in ref._waiters:
                    others = [one for one in ref._waiters if one is not waiter]
                    ref._waiters = others or None


def check_session(refs: list[ObjectRef[Any]]) -> None:
    """Raise ValueError for a reference from an earlier session of this process."""
    for ref in refs:
        if ref._owner in ended_processes:
            raise ValueError(
                f"Object {ref.hex()} belongs to an earlier session of this program, which was "
                "shut down: its value is gone."
            )


def _failed(refs: list[ObjectRef[Any]]) -> ObjectRef[Any] | None:
    """Return the first of these objects that has failed."""
    for ref in refs:
        if type(ref._value) is Value and ref._value.kind == FAILED:
            return ref
    return None


def _first_ready(refs: list[ObjectRef[Any]], count: int) -> list[int]:
    found: list[int] = []
    for i, ref in enumerate(refs):
        if ref._value is not None:
            found.append(i)
            if len(found) == count:
                break
    return found
