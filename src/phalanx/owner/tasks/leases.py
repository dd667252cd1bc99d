"""The machine of the process that submits tasks: queues of equal tasks, leased workers, pipelines,
retries.

Several tasks are sent to a worker in advance. By the mean run time of their function, these tasks
take about `AHEAD_S` seconds. A task of a function that has not run before is sent alone. If the
worker is busy for long, it returns the tasks that it has not started (Recall), so that no task
waits behind a slow one while another worker is free.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

from phalanx.model.crash_pauses import LONGEST_PAUSE_S, pause_s
from phalanx.model.lifecycle import PENDING_NODE
from phalanx.objects.reference import ObjectRef
from phalanx.objects.serialization import CallArguments
from phalanx.owner.bursts import Unfinished
from phalanx.owner.children import Parent
from phalanx.owner.peers.redialling import DIAL_AGAIN_S
from phalanx.owner.tasks.node_deaths import NodeDeaths
from phalanx.owner.tasks.records import (
    ClassKey,
    FunctionRecord,
    LeasedWorker,
    PendingTask,
    SchedulingClass,
    TaskBurst,
    Template,
)
from phalanx.owner.work import CANCELLED, TIMED_OUT
from phalanx.owner.work_queue import LOOK_AFTER
from phalanx.protocol.node_messages import OVER, PARENT

NODE = "node"
"""The way in which a worker has ended (as in `WorkerDied.kind`) whose node could no longer be
reached.
"""
PARENTS_KILLED = "parents killed"
"""The kind of failure of a task that has killed its worker's parent process too often."""
NODE_DEATHS = "node deaths"
"""The kind of failure of a task under which too many nodes died."""
FIRST_REST_S = 0.05
"""Seconds for which a task rests before its second retry. The first retry comes immediately, and
each later rest is twice as long as the one before.
"""
LONGEST_REST_S = 1.0
"""The longest rest, in seconds, before the retry of a task that raised an error."""
AHEAD_S = 0.005
"""The seconds of work that are sent to a worker in advance."""
AHEAD_TASKS = 400
"""The largest number of tasks that are sent to a worker in advance."""
IDLE_RETURN_S = 0.3
"""Seconds after which an idle worker is returned to the node."""
IDLE_WANTED_S = 0.02
"""Seconds after which an idle worker is returned if waiting tasks could use its resources.

While the node seems full, owners do not ask it for workers for those tasks. So the node would not
know that it has to take the idle worker back. A worker with a resource that a user has defined is
always returned this soon, so that readers see this resource as free, as in Ray.
"""
SLOW_HEAD_S = 0.02
"""Seconds for which a worker's first task may run before the tasks behind it are recalled."""
WORTH_A_WORKER_S = 0.001
"""The seconds of queued work for which one more worker is requested."""
FEW = 8
"""A worker with at least this number of tasks does not run out of work soon. A message with at
least this number of tasks is worth its cost.
"""
ASK_AFTER = 64
"""While a class has no workers, workers are requested again each time when its queue has grown to a
multiple of this number of tasks. The number is a power of two.
"""
FEWER_MATTER_FROM = 16
"""If at least this number of workers was requested, the node is told when half of them are no
longer wanted.

The node needs to know, because it tells other nodes how much work waits here.
"""


class Effects(Protocol):
    """Carries out the task machine's decisions, in the owner."""

    def send_tasks(
        self, worker: LeasedWorker, tasks: list[PendingTask | TaskBurst], urgent: bool
    ) -> None:
        """Send these tasks, in order: with `urgent` immediately, otherwise with the next flush."""
        ...

    def recall(self, worker: LeasedWorker) -> None:
        """Ask the worker for the tasks that it has not started."""
        ...

    def want_workers(self, scheduling_class: SchedulingClass, count: int) -> None:
        """Tell the node how many more workers this class would use. `count` is OVER if no more
        tasks of the class will come.
        """
        ...

    def return_lease(self, worker: LeasedWorker, reusable: bool) -> None:
        """Give a worker back to the node."""
        ...

    def fail(self, task: PendingTask, kind: str, reason: str) -> None:
        """Fail a task that will not run, or will not run again.

        `kind`: cancelled, refused, NODE_DEATHS, PARENTS_KILLED, or how the task's worker ended.
        """
        ...

    def attempt_lost(self, task: PendingTask) -> None:
        """Note that the worker died during an attempt of the task. The task will be retried."""
        ...

    def requeued(self, task: PendingTask, reason: str) -> None:
        """Note that the task is queued again: for a retry, or because it was not started."""
        ...


class TaskMachine:
    """All unfinished tasks of one process."""

    def __init__(self, effects: Effects) -> None:
        self._effects = effects
        self.classes: dict[ClassKey, SchedulingClass] = {}
        self._numbered: dict[int, SchedulingClass] = {}
        self._count = 0
        """The number of classes that were made so far. The number of a class is never used again.

        So a worker that another node lends for a class that is over cannot get into a class with
        other resources.
        """
        self.by_lease: dict[int, LeasedWorker] = {}
        self.pending: Unfinished[PendingTask, TaskBurst] = Unfinished()
        self.dirty: set[int] = set()
        """The numbers of the classes with queued tasks that `pump_dirty` must look at."""
        self.resting: list[tuple[float, PendingTask]] = []
        """The tasks that will be queued again, each with the time when this happens. The time is
        infinite for a task that waits for reports about dead nodes.
        """
        self.node_deaths = NodeDeaths(self._decided)
        self._latest: tuple[ClassKey, SchedulingClass] | None = None
        """The key and class of the last call that came without a record."""
        self._now = 0.0
        """The time of the last tick or grant."""
        self.idle_return_s: float | None = None
        """Seconds for which an idle worker is kept, if the cluster's settings name a time;
        otherwise None.
        """

    # ---- tasks -------------------------------------------------------------------------------

    def class_of(self, key: ClassKey) -> SchedulingClass:
        """Return the scheduling class with this key."""
        found = self.classes.get(key)
        if found is None:
            self._count += 1
            found = SchedulingClass(self._count, key)
            self.classes[key] = self._numbered[found.number] = found
        return found

    def forget(self, key: ClassKey) -> None:
        """Note that no more tasks of this class will come. Does nothing while tasks of the class
        are queued.

        When the last worker of the class has been returned, the owner and the node forget the
        class.
        """
        found = self.classes.get(key)
        if found is None or found.queue.size:
            return
        found.is_over = True
        if not found.workers:
            self._latest = None
            del self.classes[key], self._numbered[found.number]
            self.dirty.discard(found.number)
            found.announced = 0
            self._effects.want_workers(found, OVER)

    def enqueue(self, task: PendingTask) -> None:
        """Queue a task whose inputs are here. It is sent immediately only if a worker is idle."""
        latest = self._latest
        if latest is not None and latest[0] is task.key:
            scheduling_class = latest[1]
        else:
            scheduling_class = self.classes.get(task.key) or self.class_of(task.key)
        queue = scheduling_class.queue
        queue.last = task.number
        idle = scheduling_class.idle
        if idle and not (queue.size or scheduling_class.announced or idle[-1].is_stopping):
            # the same as below, with less work, because most calls that are waited for come here
            worker = task.worker = idle.pop()
            worker.inflight[task.number] = task
            queue.pump_at = LOOK_AFTER
            self._effects.send_tasks(worker, [task], True)
            return
        queue.append(task)
        self._queued(scheduling_class)

    def join(
        self,
        template: Template,
        number: int,
        args: CallArguments,
        ref: ObjectRef[Any],
        created: float,
        parent: Parent | None,
    ) -> bool:
        """Queue a call as part of a burst. Returns False if the call needs a record.

        A call joins a burst if it follows directly on another call of its class. A burst begins
        only if no worker can run the call now.
        """
        key = template.key
        if self._latest is None or self._latest[0] is not key:
            self._latest = key, self.class_of(key)
        scheduling_class = self._latest[1]
        queue = scheduling_class.queue
        burst = queue.open
        if queue.last != number - 1:
            return False
        if burst is None or burst.template is not template or burst.parent != parent:
            nobody_asked = not scheduling_class.workers and not scheduling_class.announced
            if scheduling_class.idle or nobody_asked:
                return False
            burst = TaskBurst(self.pending, number, parent, template)
            self.pending.add(burst)
            queue.begin(burst)
        queue.add(burst, number, args, ref, created)
        if queue.size >= queue.pump_at or scheduling_class.idle:
            self.pump(scheduling_class)
        self.dirty.add(scheduling_class.number)
        return True

    def _queued(self, scheduling_class: SchedulingClass) -> None:
        """Distribute a queue that has just got one more task, if a worker is idle, if no worker was
        requested yet, or if the queue has grown enough.
        """
        if scheduling_class.idle or not (scheduling_class.workers or scheduling_class.announced):
            self.pump(scheduling_class)
        else:
            self.dirty.add(scheduling_class.number)
            if scheduling_class.queue.size >= scheduling_class.queue.pump_at:
                self.pump(scheduling_class)

    def own(self, number: int) -> PendingTask | None:
        """Return the record of a task that has not ended. A task in a burst gets its record now."""
        burst = self.pending.burst_of(number)
        if burst is not None:
            if burst.worker is not None:
                burst.worker.inflight.split(burst, number)
            else:
                self.class_of(burst.key).queue.split(burst, number)
        return self.pending.records.get(number)

    def pump_dirty(self) -> None:
        """Send the tasks that may be sent in advance, and request workers for the others."""
        while self.dirty:
            self.pump(self._numbered[self.dirty.pop()])

    def pump(self, scheduling_class: SchedulingClass) -> None:
        """Distribute the queue over the class's workers, as far as their pipelines have room."""
        queue = scheduling_class.queue
        if queue.size and scheduling_class.workers:
            idle = scheduling_class.idle
            while queue.size and idle:
                worker = idle.pop()
                if worker.is_stopping:
                    continue
                self._give(worker, 1, urgent=True)
            if queue.size and not (scheduling_class.key.single or scheduling_class.key.each):
                self._send_ahead(scheduling_class)
        if queue.size or scheduling_class.announced:
            self._announce(scheduling_class)
        if scheduling_class.workers:
            queue.look_later(sum(worker.inflight.size for worker in scheduling_class.workers))
        else:
            queue.pump_at = (queue.size | (ASK_AFTER - 1)) + 1

    def _send_ahead(self, scheduling_class: SchedulingClass) -> None:
        queue = scheduling_class.queue
        workers = [w for w in scheduling_class.workers if w.inflight and not w.is_stopping]
        if not workers:
            return
        share = -(-queue.size // len(workers))
        for worker in workers:
            if not queue.size:
                return
            if worker.recalled:
                # This worker is busy with a slow task, so it gets no more tasks until that task is
                # done.
                continue
            room = self._room(queue.head, worker)
            count = min(room, share)
            if count > 0:
                # Small additions to a long pipeline wait for the next flush.
                is_urgent = count >= FEW or len(worker.inflight) < FEW
                self._give(worker, count, urgent=is_urgent)

    def _room(self, task: PendingTask | TaskBurst, worker: LeasedWorker) -> int:
        function = task.template.function
        mean = function.mean_s
        if mean is None or function.failed or task.retries == 0:
            return 0
        ahead = AHEAD_TASKS if mean <= AHEAD_S / AHEAD_TASKS else int(AHEAD_S / mean)
        return ahead - len(worker.inflight)

    def _give(self, worker: LeasedWorker, count: int, *, urgent: bool) -> None:
        queue = worker.scheduling_class.queue
        inflight = worker.inflight
        batch: list[PendingTask | TaskBurst] = []
        function: FunctionRecord | None = None
        left = count
        while queue.size and left:
            head = queue.head
            if function is None:
                function = head.template.function
            if inflight and (head.template.function is not function or head.retries == 0):
                # the mean of another function does not apply; a task without retries is sent alone
                break
            taken = queue.popleft() if count == 1 else queue.take(left)
            taken.worker = worker
            if isinstance(taken, TaskBurst):
                inflight.add(taken)
                left -= len(taken)
            else:
                inflight[taken.number] = taken
                left -= 1
            batch.append(taken)
        if batch:
            self._effects.send_tasks(worker, batch, urgent)

    def _announce(self, scheduling_class: SchedulingClass) -> None:
        queue = scheduling_class.queue
        count = queue.size
        if count:
            mean = queue.head.template.function.mean_s
            moving = [w for w in scheduling_class.workers if not (w.recalled or w.is_stopping)]
            if mean is not None and moving and not scheduling_class.key.each:
                # Workers that make progress will get to most of the tasks anyway.
                count = min(count, int(count * mean / WORTH_A_WORKER_S))
        announced = scheduling_class.announced
        is_fewer = announced >= FEWER_MATTER_FROM and count <= announced // 2
        if count == announced or (announced and 0 < count < 2 * announced and not is_fewer):
            return
        scheduling_class.announced = count
        self._effects.want_workers(scheduling_class, count)

    def finished(self, worker: LeasedWorker, number: int, now: float) -> PendingTask | None:
        """Remove task `number`, whose result has come, from its worker's pipeline."""
        task = worker.inflight.pop(number)
        if task is None:
            return None
        self.pending.records.pop(number, None)
        task.worker = None
        self._moved(worker, now)
        return task

    def finished_burst(
        self, worker: LeasedWorker, first: int, most: int, now: float
    ) -> TaskBurst | None:
        """Remove tasks whose results have come from their worker's pipeline, and return them as a
        burst: task `first` and the tasks that follow it in its burst, at most `most` in all.
        Returns None if the first task is in no burst.
        """
        burst = worker.inflight.finish(first, most)
        if burst is None:
            return None
        burst.worker = None
        self._moved(worker, now)
        return burst

    def _moved(self, worker: LeasedWorker, now: float) -> None:
        worker.sent_at = now
        worker.recalled = False
        scheduling_class = worker.scheduling_class
        if not worker.inflight.size:
            goes_at_once = worker.once or self.idle_return_s == 0
            is_over = goes_at_once and not scheduling_class.queue.size
            if is_over or scheduling_class.key.each or worker.is_stopping:
                self._give_back(worker)
                return
            worker.idle_since = now
            scheduling_class.idle.append(worker)
        if scheduling_class.queue.size:
            self.dirty.add(scheduling_class.number)

    def retry(self, task: PendingTask, reason: str) -> None:
        """Queue the task again, as another attempt."""
        task.attempt += 1
        self._requeue([task], reason)

    def retry_later(
        self, task: PendingTask, reason: str, now: float, longest_s: float = LONGEST_REST_S
    ) -> None:
        """Retry a task that raised an error or lost its worker. The first retry is immediate.
        Before each later retry, the task rests for a longer time, in which the cause of the failure
        may disappear.
        """
        rest_s = pause_s(task.attempt + 1, FIRST_REST_S, longest_s)
        if not rest_s:
            self.retry(task, reason)
            return
        self._rest(task, reason, now + rest_s)

    def _rest(self, task: PendingTask, reason: str, until: float) -> None:
        task.attempt += 1
        task.worker = None
        self._effects.requeued(task, reason)
        self.pending[task.number] = task
        self.resting.append((until, task))

    def _decided(self, task: PendingTask, why_over: str) -> None:
        """Retry a task, or end it for the reason `why_over`, because it is now known whether the
        nodes on which it ran are dead.
        """
        if self.withdraw(task):  # otherwise the task was cancelled in the meantime
            if why_over:
                self._effects.fail(task, NODE_DEATHS, why_over)
            else:
                self.pending[task.number] = task
                self.enqueue(task)

    def _wake_rested(self, now: float) -> None:
        rested = [task for until, task in self.resting if until <= now]
        self.resting = [(until, task) for until, task in self.resting if until > now]
        for task in rested:
            if task.number in self.pending:  # otherwise the node is lost
                self.enqueue(task)

    def _requeue(self, tasks: Iterable[PendingTask], reason: str) -> None:
        for task in reversed(list(tasks)):
            self._effects.requeued(task, reason)
            task.worker = None
            self.pending[task.number] = task
            scheduling_class = self.class_of(task.key)
            scheduling_class.queue.appendleft(task)
            self.dirty.add(scheduling_class.number)

    def withdraw(self, task: PendingTask) -> bool:
        """Remove a task from its queue or, if it rests before a retry, from the resting tasks.
        Returns False if it is in neither.
        """
        try:
            self.class_of(task.key).queue.remove(task)
        except ValueError:
            if not any(resting is task for _, resting in self.resting):
                return False
            self.resting = [(until, one) for until, one in self.resting if one is not task]
        self.pending.pop(task.number, None)
        self.dirty.add(self.class_of(task.key).number)
        return True

    # ---- workers -----------------------------------------------------------------------------

    def granted(
        self, class_number: int, lease: int, worker_id: bytes, now: float
    ) -> LeasedWorker | None:
        """Add a worker that the node lends to a class that is `known`.

        Returns None if the class has no task for the worker. The worker was then returned.
        """
        self._now = now
        scheduling_class = self._count_grant(class_number)
        scheduling_class.refusal = ""
        worker = LeasedWorker(lease, worker_id, scheduling_class)
        worker.idle_since = worker.sent_at = now
        self.by_lease[lease] = worker
        scheduling_class.workers.append(worker)
        scheduling_class.idle.append(worker)
        if not scheduling_class.queue.size:
            self._give_back(worker)
            return None
        return worker

    def known(self, class_number: int) -> bool:
        """Whether the class with this number still exists here. Workers that are granted to any
        other class are returned.
        """
        return class_number in self._numbered

    @property
    def now(self) -> float:
        """The time of the last tick or grant."""
        return self._now

    def unreachable(self, class_number: int) -> None:
        """Request another worker, because a granted one was gone before it could be reached."""
        self.dirty.add(self._count_grant(class_number).number)

    def _count_grant(self, class_number: int) -> SchedulingClass:
        scheduling_class = self._numbered[class_number]
        scheduling_class.announced = max(0, scheduling_class.announced - 1)
        scheduling_class.granted += 1
        return scheduling_class

    def refused(self, class_number: int, reason: str, fatal: bool) -> list[PendingTask | TaskBurst]:
        """Handle the node's refusal of this class. With `fatal` its tasks fail; otherwise they
        wait.

        Returns the tasks that begin to wait now.
        """
        scheduling_class = self._numbered.get(class_number)
        if scheduling_class is None:
            return []  # the class no longer exists
        scheduling_class.refusal = reason
        if not fatal:
            queue = scheduling_class.queue
            queue.open = None  # tasks that come later are in another state
            return [entry for entry in queue if entry.state == PENDING_NODE]
        scheduling_class.announced = 0
        for task in scheduling_class.queue.take_all():
            self.pending.pop(task.number, None)
            self._effects.fail(task, "refused", reason)
        return []

    def lease_due(self, lease: int) -> None:
        """Give a worker back as soon as its running task has ended, because others wait for its
        resources.
        """
        worker = self.by_lease.get(lease)
        if worker is None:
            return
        worker.is_stopping = True
        if not worker.inflight.size:
            self._give_back(worker)
        elif worker.inflight.size > 1:
            worker.recalled = True
            self._effects.recall(worker)

    def leaving(self, worker: LeasedWorker) -> None:
        """Give no more tasks to a worker that will end as planned."""
        worker.leaving = worker.is_stopping = True
        if not worker.inflight.size:
            self._give_back(worker)

    def returned(self, worker: LeasedWorker, numbers: list[int]) -> None:
        """Queue again the tasks that the worker did not start."""
        back = [t for n in numbers if (t := worker.inflight.pop(n, None)) is not None]
        self._take_back(back)
        if not worker.inflight.size:
            self._moved(worker, worker.sent_at)

    def _take_back(self, tasks: list[PendingTask]) -> None:
        """Queue again the tasks that were not started, except those that were cancelled
        meanwhile.
        """
        for task in tasks:
            if task.cancelled == TIMED_OUT:
                task.cancelled = ""  # the task did not run, so it cannot have run for too long
        self._requeue((t for t in tasks if not t.cancelled), "not started where it was sent")
        for task in tasks:
            if task.cancelled:
                task.worker, task.cancelled = None, CANCELLED
                self.pending.pop(task.number, None)
                self._effects.fail(task, "cancelled", "")

    def unreached(self, worker: LeasedWorker, reason: str) -> None:
        """Queue the tasks of a worker again, after a moment, because the worker could not be
        reached.

        No attempt is counted, because none of the tasks has started.
        """
        self._forget(worker)
        tasks = worker.inflight.take_all()
        again = [task for task in tasks if not task.cancelled]
        self._take_back([task for task in tasks if task.cancelled])
        for task in again:
            task.worker = None
            self._effects.requeued(task, reason)
            self.pending[task.number] = task
            self.resting.append((self._now + DIAL_AGAIN_S, task))

    def worker_lost(self, worker: LeasedWorker, reason: str, kind: str) -> None:
        """Retry or fail the tasks of a worker whose process has ended, after all its results have
        come.

        The first task in the worker's pipeline was probably running, so it counts as the cause of
        the end and uses up a retry. It uses up none if the end certainly has another cause (`kind`
        is lost or preempted). The other tasks had not started, and are queued again.
        """
        self._forget(worker)
        tasks = worker.inflight.take_all()
        if not tasks:
            return
        head, rest = tasks[0], tasks[1:]
        self._take_back(rest)
        head.worker = None
        is_blamed = kind not in ("lost", "preempted")
        """Whether the first task may have caused the end. If not, the lease ended before that task
        could start, or was taken for other work.
        """
        head.template.function.failed |= is_blamed
        if head.cancelled:
            self.pending.pop(head.number, None)
            self._effects.fail(head, "cancelled", reason)
        elif not is_blamed:
            self._requeue([head], reason)
        elif kind == NODE and (why := self.node_deaths.why_over(head, worker.worker)):
            self.pending.pop(head.number, None)
            self._effects.fail(head, NODE_DEATHS, why)
        elif kind == PARENT and (
            why := self.node_deaths.parent_killed(head, worker.worker, reason)
        ):
            self.pending.pop(head.number, None)
            self._effects.fail(head, PARENTS_KILLED, why)
        elif head.retries != 0:
            if head.retries > 0:
                head.retries -= 1
            self._effects.attempt_lost(head)
            if kind != NODE:
                self.retry_later(head, reason, self._now, LONGEST_PAUSE_S)
            elif self.node_deaths.hold_back(head):
                self._rest(head, reason, float("inf"))
            else:
                self.retry(head, reason)
        else:
            self.pending.pop(head.number, None)
            self._effects.fail(head, kind, reason)

    def tick(self, now: float) -> None:
        """Give idle workers back, recall tasks that wait behind slow tasks, and retry tasks that
        have rested.
        """
        self._now = now
        if self.resting:
            self._wake_rested(now)
            self.node_deaths.tick(now)
        is_waiting = any(each.queue and each.announced for each in self.classes.values())
        for scheduling_class in list(self.classes.values()):
            rest_s = self.idle_return_s
            if rest_s is None:
                soon = is_waiting or scheduling_class.key.is_special
                rest_s = IDLE_WANTED_S if soon else IDLE_RETURN_S
            for worker in list(scheduling_class.idle):
                if not worker.inflight and now - worker.idle_since > rest_s:
                    self._give_back(worker)
            for worker in scheduling_class.workers:
                slow = len(worker.inflight) > 1 and now - worker.sent_at > SLOW_HEAD_S
                if slow and not worker.recalled:
                    worker.recalled = True
                    self._effects.recall(worker)

    def _give_back(self, worker: LeasedWorker) -> None:
        if self._forget(worker):
            self._effects.return_lease(worker, reusable=not worker.leaving)

    def _forget(self, worker: LeasedWorker) -> bool:
        scheduling_class = worker.scheduling_class
        if self.by_lease.pop(worker.lease, None) is None:
            return False
        scheduling_class.workers.remove(worker)
        if worker in scheduling_class.idle:
            scheduling_class.idle.remove(worker)
        if scheduling_class.queue.size:
            self.dirty.add(scheduling_class.number)
        elif scheduling_class.is_over:
            self.forget(scheduling_class.key)
        return True
