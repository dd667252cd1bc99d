"""Checks the invariants of the cluster (its *promises*) by observations from outside. Where
possible, the checks observe the simulated processes and not the state of a machine: the work that
runs, its devices and its owner, and the values that readers get.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Protocol

import msgspec

from phalanx.head.head import Head
from phalanx.model.ids import INDEX_BITS
from phalanx.model.lifecycle import FAILED as STATE_FAILED
from phalanx.model.lifecycle import FINISHED
from phalanx.objects import failures
from phalanx.objects.reference import ObjectRef
from phalanx.objects.streams import Stream
from phalanx.owner.actors.client import ActorClient, CallOptions
from phalanx.owner.core import OwnerCore
from phalanx.owner.objects.reconstruction import RemadeStream
from phalanx.owner.objects.table import Callback
from phalanx.owner.tasks.records import PendingTask, Template
from phalanx.owner.tasks.timeouts import KILL_GRACE_S
from phalanx.protocol.messages import FAILED, SHARED, Call, Cancel, Task, Value
from phalanx.protocol.node_messages import CreateActor
from phalanx.worker.context import LeaseInfo
from phalanx_research.chaos.broken import Broken
from phalanx_research.chaos.gang_promises import GangPromises
from phalanx_research.chaos.history import History
from phalanx_research.chaos.job_promises import JobPromises
from phalanx_research.chaos.kernel import Kernel
from phalanx_research.chaos.network import Network
from phalanx_research.chaos.reads import Reads
from phalanx_research.chaos.truth import DONE, Key, Promise, Truth, name_of
from phalanx_research.chaos.usage import Usage
from phalanx_research.chaos.work import Work, read_label

ABANDONED = "abandoned"
OWNER_GONE = "owner gone"
_STOP_S = 1.0
"""Seconds within which a cancelled task must end in a healthy cluster, once its worker can
end it.
"""


class Submitter(Protocol):
    """A process that submits work."""

    name: str
    owner: OwnerCore

    @property
    def process_id(self) -> bytes:
        """The process's id."""
        ...


class Worker(Protocol):
    """A process that runs work."""

    name: str
    prefix: bytes
    worker_id: bytes


class Promises:
    """All invariants that are checked in a run, and the outcomes of the checks."""

    def __init__(self, kernel: Kernel, network: Network, history: History) -> None:
        self._kernel = kernel
        self._network = network
        self._history = history
        self.usage = Usage(history)
        self.jobs = JobPromises(history, lambda: kernel.now)
        self.kept: dict[Key, Promise] = {}
        self.gangs = GangPromises(history, self.kept)
        self._truth = Truth(history, self.kept)
        self.reads = Reads(network, history, self.kept, self._truth)
        self._running: dict[bytes, Key] = {}
        """The work that each worker runs: one task, or the actor's call that started last."""
        self._ended_under: dict[bytes, Key] = {}
        """The last work of each worker that has ended."""
        self._results: dict[bytes, Key] = {}
        """The work whose results each worker is writing. It is too late to stop this work."""
        self._to_stop: dict[tuple[bytes, Key], float] = {}
        """The time at which the last Cancel arrived, by worker and task."""
        self._alive_as: dict[tuple[bytes, int], bytes] = {}
        """The worker of each incarnation of an actor that the head has reported as alive."""

    # ---- submission of work ------------------------------------------------------------------

    def task_promised(
        self,
        process: Submitter,
        template: Template,
        work: Work,
        refs: list[ObjectRef[Any]],
        stream: Stream | None,
        inputs: list[ObjectRef[Any]] | None,
        parent: tuple[bytes, int] | None = None,
    ) -> None:
        """Record that a process has submitted a task.

        `parent` is the task or call that submitted this task, by owner and number.
        """
        number = refs[0]._task if stream is None else stream.number
        assert number is not None
        strategy = msgspec.json.decode(template.key.strategy) if template.key.strategy else {}
        group = strategy.get("group")
        promise = Promise(
            owner=process.name,
            number=number,
            what=f"task {number} ({template.name})",
            work=work.of(number),
            retries=template.max_retries,
            retry_exceptions=template.retry_exceptions,
            timeout_s=template.timeout_s,
            since=self._kernel.now,
            inputs=[key for ref in inputs or () if (key := self._key(ref)) in self.kept],
            takes_put=any(self._key(ref) not in self.kept for ref in inputs or ()),
            group=None if group is None else bytes.fromhex(group),
            node=strategy.get("node_id", ""),
        )
        caller = None if parent is None else self.kept.get(self._key_of(*parent))
        if caller is not None:
            caller.children.append((process.name, number))
        self._promise(process, promise, refs[0] if stream is None else stream.completion)

    def call_promised(
        self,
        process: Submitter,
        client: ActorClient,
        options: CallOptions,
        number: int,
        work: Work,
        first: ObjectRef[Any],
    ) -> None:
        """Record that a process has called an actor. `first`: the first reference of the call."""
        promise = Promise(
            owner=process.name,
            number=number,
            what=f"call {number} of {client.name}",
            work=work,
            retries=options.retries,
            retry_exceptions=options.retry_exceptions,
            since=self._kernel.now,
            is_call=True,
        )
        self._promise(process, promise, first)

    def gang_promised(
        self,
        process: Submitter,
        group: bytes,
        min_members: int,
        tasks: list[PendingTask],
        work: Work,
    ) -> None:
        """Record that a driver has requested a gang."""
        for task in tasks:
            self.task_promised(process, task.template, work, task.refs, None, None)
        self.gangs.promised(group, min_members, [(process.name, task.number) for task in tasks])

    def _promise(self, process: Submitter, promise: Promise, first: ObjectRef[Any] | None) -> None:
        assert first is not None
        self.kept[process.name, promise.number] = promise
        self._history.count("promised")
        if first._value is None:
            process.owner.objects.add_waiter(first, Callback(partial(self.ended, process, first)))
        else:
            self.ended(process, first)

    # ---- transport of work -------------------------------------------------------------------

    def posted(self, process: Submitter, message: Any) -> None:
        """Record that a process sends a message to another process."""
        if not isinstance(message, Task | Call):
            return
        promise = self.kept.get((process.name, message.number))
        if promise is None:
            return  # the task is only about to be promised
        # Items of a stream may get lost and be made again before its reader has reached the end.
        run = process.owner.reconstruction.running.get(message.number)
        is_remade = run is not None and type(run.work.stream) is RemadeStream
        if is_remade or (promise.outcome and message.attempt > promise.last_attempt):
            promise.was_made_again = True
            self._history.count("made again")
        promise.last_attempt = message.attempt
        if promise.is_cancelled and promise.outcome != DONE and not is_remade:
            raise Broken(
                f"{promise.what} of {promise.owner} was cancelled, and is sent to a worker after "
                "that",
                [promise.owner],
            )

    def cancelled(self, key: Key) -> None:
        """Record that a process cancels work that it submitted."""
        promise = self.kept.get(key)
        if promise is not None:
            promise.was_cancelled = True
            promise.is_cancelled |= not promise.outcome
            self._history.count("cancelled")

    def cancel_came(self, worker: Worker, owner: bytes, message: Cancel) -> None:
        """Record that a worker is asked to stop a task or call, and possibly its children."""
        key = self._key_of(owner, message.number)
        if self._results.get(worker.worker_id) != key:
            self._to_stop[worker.worker_id, key] = self._kernel.now
        is_running = self._running.get(worker.worker_id) == key
        if message.recursive and is_running:
            for child in self.kept[key].children:
                self.cancelled(child)

    # ---- running work ------------------------------------------------------------------------

    def task_started(self, worker: Worker, owner: bytes, task: Task, lease: LeaseInfo) -> None:
        """Check that a worker has a lease for a task when it starts the task."""
        promise = self._started(worker, owner, task.number)
        if not lease.job:
            if promise is not None:
                raise Broken(f"{worker.name} runs {promise.what} without a lease", [worker.name])
            return
        in_bundle = lease.group is not None
        self.usage.occupy(worker.prefix, worker.name, lease.resources, lease.devices, in_bundle)

    def code_ended(self, worker: Worker, owner: bytes, number: int) -> None:
        """Record that the code of a task or call has ended. Its results may still have to wait for
        room before they are written.
        """
        self._results[worker.worker_id] = self._key_of(owner, number)

    def task_ended(self, worker: Worker, is_done: bool) -> None:
        """Check a task that has run to its end or was stopped."""
        self.usage.vacate(worker.prefix, worker.name)
        self._results.pop(worker.worker_id, None)
        key = self._running.pop(worker.worker_id, None)
        if key is None:
            return
        promise = self.kept[key]
        if not is_done:
            return
        promise.finished_on.append(worker.worker_id)
        # A machine that was stopped does everything that is due at one moment, so a task may end at
        # that moment.
        asked_at = self._to_stop.get((worker.worker_id, key), self._kernel.now)
        if asked_at < self._kernel.now and not promise.work.is_stubborn:
            raise Broken(
                f"{worker.name} was asked to stop {promise.what} of {promise.owner}, and ran it to "
                "its end",
                [worker.name, promise.owner],
            )
        limit = promise.timeout_s
        longest = None if limit is None else limit + KILL_GRACE_S + _STOP_S
        if longest is not None and not self._history.had_faults and promise.work.seconds > longest:
            raise Broken(
                f"{promise.what} of {promise.owner} took {promise.work.seconds:.1f} s and may take "
                f"{limit:g} s",
                [worker.name, promise.owner],
            )

    def call_started(self, worker: Worker, order: CreateActor, owner: bytes, call: Call) -> None:
        """Check that an actor may start this call. `order`: the message that created the actor."""
        self._started(worker, owner, call.number)
        alive = self._alive_as.get((order.actor, order.incarnation))
        if alive != worker.worker_id:
            raise Broken(
                f"{worker.name} runs a call of {order.actor.hex()}, which the head never "
                "reported as alive there",
                [worker.name, "head"],
            )

    def _started(self, worker: Worker, owner: bytes, number: int) -> Promise | None:
        key = self._key_of(owner, number)
        promise = self.kept.get(key)
        if promise is None:
            return None
        promise.starts += 1
        promise.ran_on.append(worker.name)
        self._running[worker.worker_id] = key
        if 0 <= promise.retries < promise.starts - 1 - promise.excused:
            raise Broken(
                f"{promise.what} of {promise.owner} may run {promise.retries + 1} times and was "
                f"started {promise.starts} times: on {', '.join(promise.ran_on)}",
                [promise.owner, *promise.ran_on],
            )
        return promise

    # ---- actors ------------------------------------------------------------------------------

    def actor_begun(self, worker: Worker, order: CreateActor) -> None:
        """Record that a worker starts to construct an actor."""
        in_bundle = order.placement_group is not None
        self.usage.occupy(worker.prefix, worker.name, order.resources, order.devices, in_bundle)

    def actor_alive(self, actor: bytes, incarnation: int, worker: bytes) -> None:
        """Check that each incarnation of an actor is reported alive in only one process."""
        before = self._alive_as.setdefault((actor, incarnation), worker)
        if before != worker:
            names = [self._history.name_of(before), self._history.name_of(worker)]
            raise Broken(
                f"actor {actor.hex()} in its incarnation {incarnation} was alive as {names[0]} and "
                f"as {names[1]}",
                [*names, "head"],
            )

    # ---- outcomes ----------------------------------------------------------------------------

    def ended(self, process: Submitter, ref: ObjectRef[Any]) -> None:
        """Check the outcome of a task or call, or the end of its stream, when its owner receives
        it.
        """
        promise = self.kept[process.name, ref._number >> INDEX_BITS]
        value = ref._value
        if promise.work.items:
            promise.is_over = True
            if promise.is_abandoned:
                self._conclude(promise, ABANDONED)
            return
        if type(value) is Value and value.kind == FAILED:
            self._failed(promise, failures.load(value.data))
            return
        content = value
        if type(value) is Value:
            content = self._content(value) if value.kind == SHARED else value.data
        label = None if content is None else read_label(content)  # type: ignore[arg-type]
        if label is not None and not promise.is_call and label.maker not in promise.finished_on:
            raise Broken(
                f"{promise.what} of {promise.owner} gave a result that no worker made",
                [promise.owner],
            )
        self._conclude(promise, DONE)

    def stream_over(
        self, process: Submitter, number: int, items: int, error: BaseException | None
    ) -> None:
        """Check the end or error that a stream's reader gets after `items` items."""
        promise = self.kept[process.name, number]
        if error is not None:
            self._failed(promise, error)
            return
        if items != promise.work.items:
            raise Broken(
                f"{promise.what} of {promise.owner} gives {promise.work.items} items, and its "
                f"reader got {items}",
                [promise.owner, *promise.ran_on],
            )
        self._conclude(promise, DONE)

    def stream_abandoned(self, process: Submitter, number: int) -> None:
        """Record that no reader reads the stream any more."""
        promise = self.kept[process.name, number]
        promise.is_abandoned = True
        if promise.is_over:
            self._conclude(promise, ABANDONED)

    def _failed(self, promise: Promise, error: BaseException) -> None:
        is_true = self._truth.is_true(promise, error)
        self.gangs.member_failed(promise, is_true)
        if not is_true and promise.group not in self.gangs.gangs:
            self._lie(promise, error)
        self._conclude(promise, name_of(error))

    def _lie(self, promise: Promise, error: BaseException) -> None:
        raise Broken(
            f"{promise.what} of {promise.owner} failed with {name_of(error)} in attempt "
            f"{promise.last_attempt + 1} of {promise.retries + 1} for no good reason: {error}",
            [promise.owner, *promise.ran_on],
        )

    def _conclude(self, promise: Promise, outcome: str) -> None:
        if promise.outcome:
            raise Broken(
                f"{promise.what} of {promise.owner} ended as {promise.outcome}, and then as "
                f"{outcome}",
                [promise.owner, *promise.ran_on],
            )
        promise.outcome = outcome
        self._history.count(outcome)

    def _key(self, ref: ObjectRef[Any]) -> Key:
        return self._key_of(ref._owner, ref._number >> INDEX_BITS)

    def _key_of(self, owner: bytes, number: int) -> Key:
        return self._history.name_of(owner), number

    def _content(self, value: Value) -> bytes | None:
        """Return the content of a file, wherever the file is; None if the file is gone."""
        name = value.data.decode()
        contents = (host.content(name) for host in self._network.hosts.values())
        return next((content for content in contents if content is not None), None)

    # ---- ends of processes -------------------------------------------------------------------

    def worker_ended(self, worker: Worker) -> None:
        """Record that a worker's process has ended."""
        self.usage.vacate(worker.prefix, worker.name)
        self._results.pop(worker.worker_id, None)
        key = self._running.pop(worker.worker_id, None)
        if key is not None:
            self._ended_under[worker.worker_id] = key

    def preempted(self, worker: bytes) -> None:
        """Record that a worker was preempted. Its work may start once more."""
        key = self._ended_under.get(worker)
        if key is not None:
            self.kept[key].excused += 1
            self._history.count("preempted")

    def owner_ended(self, process: Submitter) -> None:
        """Record that an owner has ended. Nobody waits for its work any more, and it waits for
        nothing.
        """
        for promise in self.kept.values():
            if promise.owner == process.name and not promise.outcome:
                promise.outcome = OWNER_GONE
        self.reads.process_ended(process)

    # ---- the end -----------------------------------------------------------------------------

    def open(self) -> list[Promise]:
        """Return descriptions of the work without an outcome."""
        return [promise for promise in self.kept.values() if not promise.outcome]

    def check_all_kept(self, waited_s: float, control: Head | None) -> None:
        """Check that all submitted work has ended, and that no process waits for a value.

        `control` is the head's state.
        """
        jobs = self.jobs.open(control)
        if jobs:
            raise Broken(
                f"{len(jobs)} jobs are not done {waited_s:.0f} s after the last fault: "
                f"{'; '.join(jobs[:3])}",
                ["head"],
            )
        left = self.open()
        if left:
            one = left[0]
            raise Broken(
                f"{len(left)} of {len(self.kept)} tasks and calls have no outcome {waited_s:.0f} s "
                f"after the last fault; the first is {one.what} of {one.owner}, submitted at "
                f"{one.since:.3f} s, started {one.starts} times ({', '.join(one.ran_on)})",
                [one.owner, *one.ran_on],
            )
        self.reads.check_none_open(waited_s)
        self.gangs.check()

    def check_journal(self, process: Submitter) -> None:
        """Check that an owner's records of its tasks agree with the observations."""
        states = process.owner.journal.states()
        for promise in self.kept.values():
            if promise.owner != process.name or promise.is_call:
                continue
            state = states.get(promise.number)
            is_right = state in (FINISHED, STATE_FAILED)
            if promise.outcome == DONE and not promise.work.is_large:
                is_right = state == FINISHED  # otherwise the task may have run again and failed
            elif promise.outcome not in (DONE, ABANDONED) and not promise.was_made_again:
                is_right = state == STATE_FAILED
            if not is_right:
                raise Broken(
                    f"{promise.what} of {promise.owner} ended as {promise.outcome}, and the task "
                    f"table has it as {state}",
                    [promise.owner],
                )
        for run in process.owner.journal.runs():
            known = self.kept.get((process.name, run.number))
            if known is None or known.is_call or run.state != FINISHED:
                continue
            if run.worker not in known.finished_on:
                raise Broken(
                    f"{known.what} of {known.owner} is recorded as finished on "
                    f"{self._history.name_of(run.worker)}, which did not run it to its end",
                    [known.owner],
                )
