"""Batches of equal tasks of a queue: tasks that a program submits shortly after each other are
admitted as one.

As a hidden argument, each task has a reference to the scheduler's answer about the task's batch. So
Ray itself holds the task back in this process until the batch is admitted. The task's reference,
cancellation and errors are Ray's own. A thread reports to the scheduler how many tasks each batch
has, and how many of them have ended.
"""

from __future__ import annotations

import inspect
import os
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

import ray

from phalanx.adapters.ray.engine.callback_thread import CallbackThread
from phalanx.adapters.ray.scheduler.client import SchedulerClient, read_reply
from phalanx.protocol.requests.ray import AdmitBatch, GetBatchSize, ReportBatches, RunningBatch

GROWS_S = 0.002
"""Seconds for which a batch waits for further tasks."""
LOOK_EVERY_S = 0.005
LOOKED_AT = 64
"""The number of unfinished tasks of a batch, the oldest ones, that are checked at a time. Each
checked task takes time, and Ray runs tasks nearly in order.
"""
REPORT_EVERY_S = 1.0
"""Seconds between two reports that this process is alive. Before each report, all unfinished tasks
are checked.
"""
SIZES_KEPT_S = 1.0
SHORT_S, LONG_S = 0.05, 0.2
"""The shortest and the longest run time that a batch should have, in seconds. After a batch that
took less than SHORT_S, later batches are larger. After a batch that took more than LONG_S, they are
smaller.
"""
MAX_TIMES = 64

_Kind = tuple[str, int, tuple[tuple[str, float], ...]]


class _Batch:
    def __init__(self, kind: _Kind, ticket: bytes, answer: Any, most: int) -> None:
        self.kind = kind
        self.ticket = ticket
        self.answer = answer
        """A reference to the scheduler's answer, which is ready when the batch is admitted."""
        self.most = most
        self.since = time.monotonic()
        self.size = 0
        self.is_closed = False
        self.is_sized = False
        self.is_admitted = False
        self.admitted_at = 0.0
        self.unseen = 0
        """The number of tasks without a result or that could not be started. The end of such a task
        cannot be observed, so the task counts as unfinished until the batch is admitted.
        """
        self.refs: list[Any] = []
        """The references of the tasks that had not ended at the last check."""


class TaskBatches:
    """Forms batches of one process's tasks, and reports their progress. `submit` may be called from
    any thread.
    """

    def __init__(self, scheduler: SchedulerClient, origin: bytes) -> None:
        self._scheduler = scheduler
        self._origin = origin
        self._lock = threading.Lock()
        self._growing: dict[_Kind, _Batch] = {}
        self._batches: list[_Batch] = []
        self._sizes: dict[_Kind, tuple[float, int]] = {}
        self._times: dict[_Kind, int] = {}
        self._wakes = threading.Event()
        self._is_stopping = False
        self._callbacks = CallbackThread(scheduler.send(ReportBatches({}, {}, []), origin))
        threading.Thread(target=self._run, name="phalanx-task-batches", daemon=True).start()

    def stop(self) -> None:
        """Stop reporting."""
        self._is_stopping = True
        self._wakes.set()

    def submit(
        self,
        queue: str,
        priority: int,
        needs: Mapping[str, float],
        start: Callable[[Any], Any],
    ) -> Any:
        """Start a task of a queue. Returns the result of `start(answer)`, where `answer` is a
        reference that becomes ready when the task is admitted.
        """
        kind = (queue, priority, tuple(sorted(needs.items())))
        with self._lock:
            batch = self._growing.get(kind)
            if batch is None:
                batch = self._open(kind)
                self._batches.append(batch)
                self._growing[kind] = batch
            batch.size += 1
            if batch.size >= batch.most:
                batch.is_closed = True
                del self._growing[kind]
            try:
                result = start(batch.answer)
            except BaseException:
                batch.unseen += 1  # the scheduler counts this batch, and may know of it already
                raise
            seen = _first(result)
            if seen is None:
                batch.unseen += 1
            else:
                batch.refs.append(seen)
        self._wakes.set()
        return result

    def cancel(self, ref: Any, force: bool, recursive: bool) -> None:
        """Cancel a task by `ray.cancel`. The task may still wait for the admission of its batch."""
        self._callbacks.call(lambda: ray.cancel(ref, force=force, recursive=recursive))

    def _open(self, kind: _Kind) -> _Batch:
        """Open a new batch. If no other batch of this kind waits, the new batch has a single task
        and is reported at once. So a task that is submitted alone does not wait for other tasks.
        """
        queue, priority, needs = kind
        is_alone = not any(_waits(one) for one in reversed(self._batches) if one.kind == kind)
        ticket = os.urandom(12)
        request = AdmitBatch(ticket, queue, priority, dict(needs), 1 if is_alone else 0)
        answer = self._scheduler.send(request, self._origin)
        batch = _Batch(kind, ticket, answer, 1 if is_alone else self._size(kind))
        batch.is_sized = is_alone
        return batch

    def _size(self, kind: _Kind) -> int:
        """Return the number of tasks of the next batch. It is the number of tasks that run at the
        same time, or more if tasks are short.
        """
        known = self._sizes.get(kind)
        if known is None or time.monotonic() > known[0] + SIZES_KEPT_S:
            request = GetBatchSize(kind[0], dict(kind[2]))
            size = self._scheduler.ask(request, origin=self._origin)
            known = self._sizes[kind] = (time.monotonic(), size)
        return int(known[1] * self._times.get(kind, 1))

    def _ended(self, batch: _Batch) -> None:
        """Choose the size of later batches of this kind from the time that this batch took."""
        took = time.monotonic() - batch.admitted_at
        times = self._times.get(batch.kind, 1)
        if took < SHORT_S and batch.size >= batch.most:
            self._times[batch.kind] = min(times * 2, MAX_TIMES)
        elif took > LONG_S:
            self._times[batch.kind] = max(times // 2, 1)

    def _run(self) -> None:
        reported_at = 0.0
        while not self._is_stopping:
            self._wakes.wait(None if not self._batches else LOOK_EVERY_S)
            self._wakes.clear()
            try:
                now = time.monotonic()
                is_whole = now > reported_at + REPORT_EVERY_S
                sized, done = self._news(None if is_whole else LOOKED_AT)
                if is_whole:
                    reported_at = now
                    sized, running = self._all()  # a new scheduler may have started
                    self._report(ReportBatches(sized, done, running))
                elif sized or done:
                    self._report(ReportBatches(sized, done, []))
            except Exception:
                if not ray.is_initialized():
                    return  # the program has disconnected from Ray, which ended its tasks
                time.sleep(LOOK_EVERY_S)

    def _news(self, most: int | None) -> tuple[dict[bytes, int], dict[bytes, int]]:
        """Return the sizes of the batches that are full, and the number of tasks of each batch that
        have ended since the last check. Up to `most` tasks of each batch are checked.
        """
        now = time.monotonic()
        sized, done = {}, {}
        with self._lock:
            for kind, batch in list(self._growing.items()):
                if now > batch.since + GROWS_S:
                    batch.is_closed = True
                    del self._growing[kind]
            batches = [batch for batch in self._batches if batch.is_closed]
        for batch in batches:
            if not batch.is_sized:
                batch.is_sized = True
                sized[batch.ticket] = batch.size
            count = _take_ended(batch, most)
            if count:
                done[batch.ticket] = count
        over = {batch for batch in batches if not (batch.refs or batch.unseen)}
        for batch in over:
            self._ended(batch)
        if over:
            with self._lock:
                self._batches = [batch for batch in self._batches if batch not in over]
        return sized, done

    def _all(self) -> tuple[dict[bytes, int], list[RunningBatch]]:
        """Return the sizes of the waiting batches, and the running batches, for a scheduler that
        has just started.
        """
        with self._lock:
            batches = [batch for batch in self._batches if batch.is_sized]
        sized = {batch.ticket: batch.size for batch in batches if not batch.is_admitted}
        running = [
            RunningBatch(b.ticket, b.kind[0], b.kind[1], dict(b.kind[2]), len(b.refs) + b.unseen)
            for b in batches
            if b.is_admitted
        ]
        return sized, running

    def _report(self, request: ReportBatches) -> None:
        self._scheduler.ask(request, origin=self._origin)


def _waits(batch: _Batch) -> bool:
    if not batch.is_admitted and ray.wait([batch.answer], timeout=0, fetch_local=False)[0]:
        batch.is_admitted, batch.admitted_at = True, time.monotonic()
    return not batch.is_admitted


def _take_ended(batch: _Batch, most: int | None) -> int:
    """Return how many of the batch's oldest `most` tasks (None: all tasks) have ended since the
    last call.
    """
    waits = _waits(batch)
    ended = []
    if batch.refs and (most is None or not waits):
        oldest = batch.refs[:most]
        ended, left = ray.wait(oldest, num_returns=len(oldest), timeout=0, fetch_local=False)
        batch.refs = left + batch.refs[len(oldest) :]
    count = len(ended)
    if not waits:
        count, batch.unseen = count + batch.unseen, 0
    return count


def _first(result: Any) -> Any:
    """Return one reference that is ready when the task has ended."""
    if isinstance(result, list):
        return result[0]
    return result.completed() if isinstance(result, ray.ObjectRefGenerator) else result


def when_admitted(function: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap `function` so that it takes the scheduler's answer as its first argument.

    If the answer is an error, the wrapper raises it. functools.wraps is not used, because Ray would
    then read the signature of the wrapped function.
    """
    if inspect.isgeneratorfunction(function):

        def run(answer: bytes, *args: Any, **kwargs: Any) -> Any:
            read_reply(AdmitBatch, answer)
            yield from function(*args, **kwargs)

    else:

        def run(answer: bytes, *args: Any, **kwargs: Any) -> Any:
            read_reply(AdmitBatch, answer)
            return function(*args, **kwargs)

    run.__name__, run.__qualname__ = function.__name__, function.__qualname__
    run.__module__, run.__doc__ = function.__module__, function.__doc__
    return run
