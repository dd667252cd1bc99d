"""Waiting for objects: get and wait, as the calling thread sees them. None holds the lock."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from phalanx.engines.embedded.client import interrupts
from phalanx.engines.embedded.client.reactor import Waiter
from phalanx.errors import GetTimeoutError
from phalanx.objects.reference import ObjectRef, Vanished, ended_processes
from phalanx.objects.serialization import deserialize
from phalanx.protocol.messages import FAILED, Value

if TYPE_CHECKING:
    from phalanx.engines.embedded.client.runtime import Runtime

_PATIENCE_S = 0.002
"""A task that waits longer than this gives its CPUs back."""


def get_many(runtime: Runtime, refs: list[ObjectRef[Any]], timeout_s: float | None) -> list[Any]:
    """All values, in order. Raises the first failed object's error, or GetTimeoutError."""
    if ended_processes:
        check_session(refs)
    deadline = None if timeout_s is None else time.monotonic() + timeout_s
    missing = [ref for ref in refs if ref._value is None]
    if missing and not _wait(runtime, missing, len(missing), timeout_s, fail_fast=True):
        left = sum(ref._value is None for ref in refs)
        raise GetTimeoutError(
            f"Get timed out: {left} of {len(refs)} objects were not there after {timeout_s} s."
        )
    if missing:
        for ref in refs:
            value = ref._value
            if type(value) is Value and value.kind == FAILED:
                _read(runtime, ref, deadline)
    return [
        deserialize(value) if type(value := ref._value) is bytes else _read(runtime, ref, deadline)
        for ref in refs
    ]


def check_session(refs: list[ObjectRef[Any]]) -> None:
    """Raise ValueError for a reference of an earlier session of this process."""
    for ref in refs:
        if ref._owner in ended_processes:
            raise ValueError(
                f"Object {ref.hex()} belongs to an earlier session of this program, which was "
                "shut down: its value is gone."
            )


def get_one(runtime: Runtime, ref: ObjectRef[Any], timeout_s: float | None) -> Any:
    """One value. Raises its error, or GetTimeoutError."""
    if ended_processes:
        check_session([ref])
    deadline = None if timeout_s is None else time.monotonic() + timeout_s
    if ref._value is None and not _wait(runtime, [ref], 1, timeout_s):
        raise GetTimeoutError(
            f"Get timed out: object {ref.hex()} was not there after {timeout_s} s."
        )
    value = ref._value
    if type(value) is bytes:
        return deserialize(value)
    return _read(runtime, ref, deadline)


def _read(runtime: Runtime, ref: ObjectRef[Any], deadline: float | None) -> Any:
    """The value of an object that was there; waits for it again when it got lost."""
    while True:
        try:
            return runtime.values.read(ref, deadline)
        except Vanished:
            left = None if deadline is None else max(deadline - time.monotonic(), 0.0)
            if not _wait(runtime, [ref], 1, left):
                raise GetTimeoutError(
                    f"Get timed out: object {ref.hex()} was lost and is being made again."
                ) from None


def wait_for(runtime: Runtime, ref: ObjectRef[Any]) -> None:
    """Wait until an object is there, whatever it is. The waiting thread keeps its CPUs."""
    waiter = Waiter()
    with runtime.lock:
        if ref._value is not None:
            return
        runtime.values.add_waiter(ref, waiter)
        runtime.values.fetch(ref)
    runtime.flush()
    runtime.reactor.wait(waiter)


def wait_some(
    runtime: Runtime, refs: list[ObjectRef[Any]], count: int, timeout_s: float | None
) -> tuple[list[ObjectRef[Any]], list[ObjectRef[Any]]]:
    """(ready, not ready), both in the given order; at most `count` ready ones."""
    ready = _first_ready(refs, count)
    if len(ready) < count:
        missing = [ref for ref in refs if ref._value is None]
        _wait(runtime, missing, count - (len(refs) - len(missing)), timeout_s)
        ready = _first_ready(refs, count)
    if len(ready) == 1:
        at = ready[0]
        return [refs[at]], refs[:at] + refs[at + 1 :]
    chosen = set(ready)
    return [refs[i] for i in ready], [r for i, r in enumerate(refs) if i not in chosen]


def _first_ready(refs: list[ObjectRef[Any]], count: int) -> list[int]:
    found: list[int] = []
    for i, ref in enumerate(refs):
        if ref._value is not None:
            found.append(i)
            if len(found) == count:
                break
    return found


def _wait(
    runtime: Runtime,
    missing: list[ObjectRef[Any]],
    needed: int,
    timeout_s: float | None,
    fail_fast: bool = False,
) -> bool:
    """Wait until `needed` of `missing` are there. False when the time is up first."""
    if timeout_s is not None and timeout_s <= 0:
        return _poll(runtime, missing, needed)
    waiter = Waiter(needed, fail_fast)
    values = runtime.values
    me = runtime.process_id
    if ended_processes:
        check_session(missing)
    with runtime.lock:
        for ref in missing:
            if ref._value is not None:
                waiter.notify()
            elif ref._waiters is None:
                ref._waiters = [waiter]
            else:
                ref._waiters.append(waiter)
            if ref._owner != me or ref._hold is not None:
                values.fetch(ref)
    try:
        runtime.flush()
        if waiter.done:
            return True
        if runtime.tasks.locality.is_used:
            runtime.tasks.locality.waited_for(missing)
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        return _wait_in_task(runtime, waiter, deadline)
    finally:
        if not waiter.done or len(missing) > needed:
            _forget(runtime, missing, waiter)


def _wait_in_task(runtime: Runtime, waiter: Waiter, deadline: float | None) -> bool:
    executor = runtime.executor
    if executor is None:
        interrupts.guard()
        return runtime.reactor.wait(waiter, deadline)
    patience = time.monotonic() + _PATIENCE_S
    first = patience if deadline is None else min(patience, deadline)
    if runtime.reactor.wait(waiter, first):
        return True
    if first == deadline:
        return False
    blocked = executor.block()
    try:
        return runtime.reactor.wait(waiter, deadline)
    finally:
        if blocked:
            executor.unblock()


def _poll(runtime: Runtime, missing: list[ObjectRef[Any]], needed: int) -> bool:
    """Look once at what has come, without waiting."""
    with runtime.lock:
        for ref in missing:
            runtime.values.fetch(ref)
    runtime.flush()
    runtime.reactor.wait(Waiter(), time.monotonic())
    return sum(ref._value is not None for ref in missing) >= needed


def _forget(runtime: Runtime, refs: list[ObjectRef[Any]], waiter: Waiter) -> None:
    with runtime.lock:
        for ref in refs:
            if ref._waiters is not None and waiter in ref._waiters:
                ref._waiters.remove(waiter)
