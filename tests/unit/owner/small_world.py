"""Owners, a node and workers without processes: real machines, messages in queues, random deaths.

The owners are real `OwnerCore`s over queues, the node is the real `LeaseMachine`; workers are
modelled. Messages between two parties keep their order. Everything else is chosen by one seeded
random generator, so a failure can be repeated from its seed.
"""

from __future__ import annotations

import itertools
import random
from collections import deque
from functools import partial
from typing import Any

from tests.world.clock import ManualClock

from phalanx.node.leases.machine import LeaseMachine
from phalanx.node.workers import WorkerPool
from phalanx.objects.file_hold import FileHold
from phalanx.owner.core import OwnerCore
from phalanx.owner.shell import OwnerShell
from phalanx.owner.tasks.records import ClassKey, FunctionRecord, Template
from phalanx.protocol.messages import (
    FAILED,
    Cancel,
    Done,
    Failed,
    Function,
    Hello,
    Lease,
    Recall,
    Results,
    Returned,
    Task,
    Tasks,
    Unlease,
    Value,
)
from phalanx.protocol.node_messages import (
    Claimed,
    Events,
    Granted,
    LeaseDue,
    LeaseReturned,
    LeaseWanted,
    ProcessNumbers,
    Settled,
    WorkerDied,
)
from phalanx.scheduler.devices.instances import NodeResources
from phalanx.scheduler.devices.sets import ResourceSet
from phalanx.worker.assigned import tasks_of

END = object()
"""Marks the end of the connection in a queue."""


class Wire:
    """One direction of a connection, with the messages on their way in order."""

    def __init__(self, peer=b""):
        self.peer = peer
        self.queue: deque[Any] = deque()
        self.is_cut = False

    def post(self, message):
        if not self.is_cut:
            self.queue.append(message)

    send = post


class Files:
    """Stands for shared memory. Files that owners drop are deleted."""

    def __init__(self, names):
        self.names = names
        self.dropped: deque[tuple[str, Any, bool]] = deque()

    def hold(self, name, size):
        return FileHold(self, name, size, None)

    def is_here(self, name):
        return name in self.names

    def lend(self, name):
        pass

    def collect(self):
        while self.dropped:
            self.names.discard(self.dropped.popleft()[0])


class Owner:
    """A process that submits tasks."""

    def __init__(self, world, process_id):
        self.world = world
        self.process_id = process_id
        self.node = Wire(process_id)
        self.store = Files(world.files)
        self.refs = {}
        """Of tasks whose outcome matters, by number."""
        self.core = OwnerCore(
            process_id,
            "driver",
            OwnerShell(
                transport=self,
                outbox=self,
                node=self.node,
                files=self.store,
                pack=lambda value: (b"", None, None),
                clock=world.clock,
                wall=world.clock,
                request_tick=lambda: None,
                warn=lambda text: None,
            ),
        )
        self.tasks = self.core.tasks

    # ---- Transport and Outbox

    def dial(self, worker_id):
        return self.world.connect(self, worker_id)

    def watch(self, connection):
        pass

    def post(self, connection, message):
        connection.post(message)

    def flush_later(self, connection):
        pass

    def close(self, connection):
        pass

    # ----

    def begin(self, template, inputs=None):
        """Submit a task with these inputs; return the reference to its result."""
        if inputs is None and template.goes_in_bursts:
            return self.tasks.call(template, b"", None)
        task = self.tasks.new(template, b"", inputs, None)
        self.tasks.submit(task)
        (ref,) = task.refs
        return ref

    def submit(self, template):
        """Submit a task and return its number. Its outcome is in `results` later."""
        ref = self.begin(template)
        self.refs[ref._task] = ref
        return ref._task

    @property
    def results(self):
        """Return "done" or "failed" for each task that has ended, by number."""
        values = {number: ref._value for number, ref in self.refs.items()}
        return {
            number: "failed" if isinstance(value, Value) and value.kind == FAILED else "done"
            for number, value in values.items()
            if value is not None
        }

    def receive(self, connection, message, now):
        if message is END:
            self.core.connection_ended(connection)
        elif isinstance(message, Done):
            self.core.done(connection, message, now)
        else:
            assert self.core.handle(connection, message, now), message


class Worker:
    """A process that runs the tasks that it is sent, one after another."""

    def __init__(self, worker_id):
        self.worker_id = worker_id
        self.links = {}
        """Owner -> (wire to the owner, wire to the worker)."""
        self.queue: deque[tuple[Owner, Task]] = deque()
        self.running = None
        self.is_dead = False

    def receive_next(self, owner, wire):
        self.receive(owner, wire.queue.popleft())

    def receive(self, owner, message):
        match message:
            case Task():
                self.queue.append((owner, message))
            case Tasks():
                self.queue.extend((owner, task) for task in tasks_of(message))
            case Recall():
                self.give_back()
            case Cancel():
                self.cancel(owner, message.number)
            case _:
                assert isinstance(message, Hello | Function | Lease | Unlease), message

    def give_back(self):
        back, self.queue = self.queue, deque()
        for owner, task in back:
            self.links[owner][0].post(Returned([task.number]))

    def cancel(self, owner, number):
        for entry in list(self.queue):
            if (entry[0], entry[1].number) == (owner, number):
                self.queue.remove(entry)
                self.links[owner][0].post(Failed(number, b"", 0.0, 0.0, "cancelled"))


class World:
    """All parties, and the random generator that chooses the next event."""

    def __init__(self, seed, cpus=2, owners=2):
        self.random = random.Random(seed)
        self.clock = ManualClock()
        self.files = set()
        ids = itertools.count(1)
        pool = WorkerPool(cpus, lambda job: next(ids).to_bytes(12, "big") + job)
        self.resources = NodeResources({"CPU": cpus})
        self.machine = LeaseMachine(self.resources, self, pool, node_id="n", labels={})
        self.owners = [
            Owner(self, bytes(6) + bytes([i]) * 6 + b"\0\0\0\1") for i in range(1, owners + 1)
        ]
        self.to_owner = {o.process_id: Wire() for o in self.owners}
        self.to_node: deque[tuple[str, bytes]] = deque()
        """From the parent of all workers, and their hellos."""
        self.workers = {}
        self.runs = {}
        """(owner, task number) -> how often it was begun."""
        self.cancelled = set()
        self.forks: deque[bytes] = deque()

    # ---- effects of the node's machine -------------------------------------------------------

    def start_worker(self, record):
        self.forks.append(record.worker_id)

    def stop_worker(self, record, reason, force):
        if record.worker_id in self.workers:
            self.kill(self.workers[record.worker_id])

    def warn_worker(self, record):
        raise AssertionError("nothing is preempted here")

    def granted(self, lease):
        wire = self.to_owner[lease.demand.owner]
        wire.post(
            Granted(
                lease.demand.scheduling_class, lease.number, lease.worker.worker_id, {"CPU": 1}, {}
            )
        )

    def due(self, lease):
        self.to_owner[lease.demand.owner].post(LeaseDue(lease.number))

    def refused(self, demand, reason, error):
        raise AssertionError(f"refused: {reason}")

    # ---- what happens ------------------------------------------------------------------------

    def connect(self, owner, worker_id):
        worker = self.workers.get(worker_id)
        if worker is None or worker.is_dead:
            return None
        if owner not in worker.links:
            worker.links[owner] = (Wire(worker_id), Wire(worker_id))
        wire = worker.links[owner][0]
        wire.out = _Out(worker.links[owner])
        return wire.out

    def kill(self, worker):
        if worker.is_dead:
            return
        worker.is_dead = True
        worker.queue.clear()
        for to_owner, to_worker in worker.links.values():
            to_owner.post(END)
            to_owner.is_cut = to_worker.is_cut = True
            to_worker.queue.clear()
        self.to_node.append(("exited", worker.worker_id))

    def moves(self):
        """Return functions for all events that may happen next."""
        found = []
        if self.forks:
            found.append(self._fork)
        if self.to_node:
            found.append(self._tell_node)
        for owner in self.owners:
            if owner.node.queue:
                found.append(partial(self._node_receives, owner))
            wire = self.to_owner[owner.process_id]
            if wire.queue:
                found.append(partial(self._owner_receives, owner, None, wire))
            if owner.tasks.machine.dirty:
                found.append(owner.tasks.machine.pump_dirty)
        for worker in self.workers.values():
            for owner, (to_owner, to_worker) in worker.links.items():
                if to_owner.queue:
                    found.append(partial(self._owner_receives, owner, to_owner.out, to_owner))
                if to_worker.queue:
                    found.append(partial(worker.receive_next, owner, to_worker))
            if worker.running or worker.queue:
                found.append(partial(self._work, worker))
        return found

    def step(self):
        """Let one random event happen. Returns False if none can."""
        found = self.moves()
        if found:
            self.random.choice(found)()
        self.check()
        return bool(found)

    def tick(self, seconds):
        self.clock.time_s += seconds
        for owner in self.owners:
            owner.core.tick(self.clock.time_s)
        self.machine.tick(self.clock.time_s)

    def settle(self, limit=30_000):
        """Let messages arrive and time pass until nothing can happen any more."""
        for _ in range(limit):
            if not self.step():
                self.tick(0.4)
                if not self.moves():
                    return
        raise AssertionError("it never comes to rest")

    def check(self):
        used = sum(not x.is_blocked for x in self.machine.leases.values())
        assert used <= self.resources.total()["CPU"], "more leases than CPUs"

    def _fork(self):
        worker_id = self.forks.popleft()
        self.workers[worker_id] = Worker(worker_id)
        self.to_node.append(("hello", worker_id))

    def _tell_node(self):
        what, worker_id = self.to_node.popleft()
        now = self.clock.time_s
        if what == "hello":
            self.machine.worker_ready(worker_id, 1, now)
            return
        lease = self.machine.worker_gone(worker_id, now)
        for owner in self.owners:
            if lease is None or lease.demand.owner == owner.process_id:
                self.to_owner[owner.process_id].post(WorkerDied(worker_id, "killed", "crashed"))

    def _node_receives(self, owner):
        message = owner.node.queue.popleft()
        now = self.clock.time_s
        if isinstance(message, LeaseReturned):
            self.machine.returned(message.lease, message.reusable, now)
            return
        if not isinstance(message, LeaseWanted):
            assert isinstance(message, Claimed | Settled | Events | ProcessNumbers), message
            return
        request = ResourceSet.from_mapping(message.resources)
        self.machine.want(
            now,
            owner=owner.process_id,
            scheduling_class=message.scheduling_class,
            place=request,
            hold=request,
            count=message.count,
            job=owner.process_id[12:],
            priority=message.priority,
            seen=message.seen,
            asker=self,
        )

    def _owner_receives(self, owner, connection, wire):
        owner.receive(connection, wire.queue.popleft(), self.clock.time_s)

    def _work(self, worker):
        if worker.running is None:
            worker.running = worker.queue.popleft()
            owner, task = worker.running
            key = (owner.process_id, task.number)
            self.runs[key] = self.runs.get(key, 0) + 1
            return
        (owner, task), worker.running = worker.running, None
        took = 0.05 if task.name == "slow" else 0.00002
        self.clock.time_s += took
        self._answer(worker.links[owner][0], self.outcome(worker, task, took))

    def _answer(self, wire, message):
        """Send a worker's answer. At random it is sent in one message with the answer before it."""
        last = wire.queue[-1] if wire.queue else None
        if not (_is_plain(message) and self.random.random() < 0.7):
            wire.post(message)
        elif isinstance(last, Results) and last.first + len(last.values) == message.number:
            last.values.append(message.value)
            last.started.append(message.started)
            last.ended.append(message.ended)
        elif not wire.is_cut:
            one = Results(message.number, [message.value], [message.started], [message.ended])
            wire.post(one)

    def outcome(self, worker, task, took):
        """Return a worker's report of a task that it ran."""
        return Done(task.number, b"", 0.0, took)


def _is_plain(message):
    return isinstance(message, Done) and isinstance(message.value, bytes) and not message.more


class _Out:
    """The owner's end of its connection to a worker. It also identifies the connection when
    messages arrive.
    """

    is_dialling, refusal, refusal_status, waiting = False, "", 0, 0

    def __init__(self, link):
        self._to_worker = link[1]
        self.peer = link[1].peer

    def post(self, message):
        self._to_worker.post(message)

    send = post

    def flush(self):
        pass

    def unsent(self):
        return []


def template(name, max_retries, priority=0):
    """Return the template of tasks of function `name`, on one CPU each."""
    key = ClassKey((("CPU", 1.0),), b"", b"", "", priority, False)
    function = FunctionRecord(name.encode(), name, b"")
    return Template(function=function, key=key, name=name, returns=1, max_retries=max_retries)
