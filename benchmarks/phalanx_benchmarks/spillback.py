"""Compares the two global schedulers on one stream of tasks, with the code of many nodes and no
network. Each node has its lease machine and its replica of the global scheduler, whose view is at
most a tenth of a second old, as in a cluster. Messages take no time. Nodes have 4 to 32 CPUs. Tasks
are submitted in bursts on a few nodes, as drivers do. A task holds 1, 2 or 4 CPUs. Run times have a
long tail. Half of the bursts have an argument of 100 MB or 1 GB on some node. A task on another
node first fetches this argument at 1 GB a second. `load` is the fraction of all CPUs that the
arriving tasks request. Time is virtual; the given clock measures how long plans take.
"""

from __future__ import annotations

import itertools
import random
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

from phalanx.node.leases.machine import LeaseMachine
from phalanx.node.leases.model import Demand, Lease
from phalanx.node.options import SpillOptions
from phalanx.node.spillback import Spillback
from phalanx.node.workers import WorkerPool, WorkerRecord
from phalanx.protocol.cluster_messages import ViewRow
from phalanx.scheduler.devices.instances import NodeResources
from phalanx.scheduler.devices.sets import ResourceSet
from phalanx.scheduler.placement.cluster_nodes import ClusterNodes
from phalanx.scheduler.placement.placement_policy import PlacementPolicy
from phalanx_research.virtual_time import VirtualTime

Clock = Callable[[], float]
Row = dict[str, Any]

NODES = 60
DRIVERS = 6
TASKS = 10_000
LOADS = (0.6, 0.95, 1.5)
CHOICES = (("default", 0), ("least-waiting", 0), ("default", 16), ("least-waiting", 16))
"""Pairs of the global scheduler and the spill threshold."""
_TICK_S = 0.1
_SIZES = (4, 4, 8, 8, 16, 32)
_BURST = 40
_ARGUMENTS = (0, 0, 10**8, 10**9)
_BANDWIDTH = 1e9


class _Class(NamedTuple):
    """One kind of a driver's tasks: their request, and the node that holds their argument."""

    number: int
    cpus: float
    near: str
    argument_bytes: int

    @property
    def strategy(self) -> dict[str, Any]:
        """Return the strategy as encoded in messages."""
        return {"near": self.near, "bytes": self.argument_bytes} if self.near else {}


def run(clock: Clock, nodes: int = NODES, tasks: int = TASKS) -> list[Row]:
    """Return a row for each load and choice: waiting times, the makespan, and the time of planning
    for each worker that a node requests from another node.
    """
    return [
        _World(clock, nodes, name, threshold).measure(tasks, load)
        for load in LOADS
        for name, threshold in CHOICES
    ]


class _Node:
    """One node: its machines, its driver's waiting tasks, and its requests to other nodes."""

    def __init__(self, world: _World, number: int, options: SpillOptions) -> None:
        self.world = world
        self.id = f"{number:04d}"
        self.cpus = float(_SIZES[number % len(_SIZES)])
        self.cluster = ClusterNodes()
        self.waiting: dict[int, deque[tuple[float, float]]] = {}
        """The arrival and the run time of this driver's waiting tasks, by the number of their
        class.
        """
        self.known: dict[int, int] = {}
        """The last known number of leases that the node's driver has for each class."""
        workers = itertools.count()
        self.spilling = Spillback(
            self.id,
            self.cluster,
            self,
            random.Random(number),
            options,
            is_mine=lambda owner: owner == self.id.encode(),
            nodes_of=lambda place: [],
        )
        self.machine = LeaseMachine(
            NodeResources({"CPU": self.cpus}),
            self,
            WorkerPool(int(self.cpus), lambda job: next(workers).to_bytes(16, "big")),
            node_id=self.id,
            labels={},
            other_nodes=self.spilling,
        )
        self._starting: list[WorkerRecord] = []

    def row(self) -> ViewRow:
        return ViewRow(
            node_id=self.id,
            prefix=b"",
            host="",
            port=0,
            state="ALIVE",
            total={"CPU": self.cpus},
            available=self.machine.resources.available(),
            labels={},
            queue_length=sum(d.count for d in self.machine.waiting.all()),
            run_s=self.machine.run_s.value,
            last_lease=self.machine.last_lease,
        )

    def want(self, kind: _Class) -> None:
        """Tell this node how many workers its driver could use for a class."""
        count, seen = len(self.waiting.get(kind.number, ())), self.known.get(kind.number, 0)
        here = 0 if self.spilling.must_plan(kind.strategy) else -1
        self.want_here(self.id, kind, count, seen, strategy=kind.strategy, here=here)

    def want_here(self, owner: str, kind: _Class, count: int, seen: int, **more: Any) -> None:
        place = ResourceSet.from_mapping({"CPU": kind.cpus})
        self.machine.want(
            self.world.now,
            seen=seen,
            owner=owner.encode(),
            scheduling_class=kind.number,
            place=place,
            hold=place,
            count=count,
            asker=self,
            **more,
        )

    def settle(self) -> None:
        """Start requested workers immediately."""
        while self._starting:
            self.machine.worker_ready(self._starting.pop().worker_id, 1, self.world.now)

    # ---- effects -----------------------------------------------------------------------------

    def ask(self, node_id: str, demand: Demand, count: int, seen: int) -> None:
        other = self.world.nodes[node_id]
        other.want_here(self.id, self.world.kinds[demand.scheduling_class], count, seen)
        self.world.asked += count
        other.settle()

    def withdraw(
        self, node_id: str, owner: bytes, scheduling_class: int, is_over: bool = False
    ) -> None:
        self.world.nodes[node_id].want_here(self.id, self.world.kinds[scheduling_class], 0, 0)

    def start_worker(self, worker: WorkerRecord) -> None:
        """Record a worker. It is ready at the end of the machine's turn."""
        self._starting.append(worker)

    def granted(self, lease: Lease) -> None:
        """Give the lease to its owner, which then runs a task on it."""
        owner = self.world.nodes[lease.demand.owner.decode()]
        number = lease.demand.scheduling_class
        if owner is not self:
            owner.spilling.granted(
                self.id, lease.demand.owner, number, lease.demand.hold, lease.number
            )
            owner.machine.waiting.granted_elsewhere(lease.demand.owner, number)
        owner.known[number] = owner.known.get(number, 0) + 1
        self.world.begin(self, owner, lease)

    def due(self, lease: Lease) -> None:
        """Do nothing, because the owner gives the lease back when the running task ends."""

    def refused(self, demand: Demand, reason: str, error: str) -> None:
        """Do nothing: the request keeps waiting."""

    def stop_worker(self, worker: WorkerRecord, reason: str, force: bool) -> None:
        self.machine.worker_gone(worker.worker_id, self.world.now)

    def warn_worker(self, worker: WorkerRecord) -> None:
        """Do nothing, because no work is preempted here."""


class _World(VirtualTime):
    """The simulated world: virtual time, the nodes, and the measured values."""

    def __init__(self, clock: Clock, nodes: int, name: str, threshold: int) -> None:
        super().__init__()
        self._clock = clock
        self._choice = (name, threshold)
        options = SpillOptions(placement=PlacementPolicy(policy=name), threshold=threshold)
        made = [_Node(self, number, options) for number in range(nodes)]
        self.nodes = {node.id: node for node in made}
        self.kinds: list[_Class] = []
        self.asked = 0
        self._waits: list[float] = []
        self._elsewhere = 0
        self._fetched: set[tuple[str, int]] = set()
        self._moved_bytes = 0
        self._plan_s = 0.0
        self._plans = 0

    def measure(self, tasks: int, load: float) -> Row:
        """Simulate one stream of tasks until the last task ends."""
        rng = random.Random(1)
        cpus = sum(node.cpus for node in self.nodes.values())
        drivers = rng.sample(sorted(self.nodes), DRIVERS)
        at, work = 0.0, 0.0
        for _ in range(tasks // _BURST):
            driver = self.nodes[drivers[min(int(rng.expovariate(0.7)), DRIVERS - 1)]]
            argument_bytes = rng.choice(_ARGUMENTS)
            kind = _Class(
                number=len(self.kinds),
                cpus=rng.choice((1.0, 1.0, 1.0, 2.0, 4.0)),
                near=rng.choice(sorted(self.nodes)) if argument_bytes else "",
                argument_bytes=argument_bytes,
            )
            self.kinds.append(kind)
            burst = [min(rng.lognormvariate(-1.0, 1.2), 10.0) for _ in range(_BURST)]
            self.at(at, partial(self._come, driver, kind, burst))
            work += kind.cpus * sum(burst)
            at = work / (cpus * load)
        self.at(0.0, self._tick)
        while len(self._waits) < tasks // _BURST * _BURST or self._busy():
            self.step()
        return self._figures(load)

    def _busy(self) -> bool:
        return any(node.machine.leases for node in self.nodes.values())

    def _come(self, driver: _Node, kind: _Class, burst: Sequence[float]) -> None:
        driver.waiting[kind.number] = deque((self.now, run_s) for run_s in burst)
        driver.want(kind)
        driver.settle()
        self._plan(driver)

    def _tick(self) -> None:
        """Do what each node does ten times a second: report, read the other nodes' reports, and
        plan.
        """
        rows = [node.row() for node in self.nodes.values()]
        for node in self.nodes.values():
            if node.waiting:
                for row in rows:
                    node.cluster.put(row)
                self._plan(node)
            node.machine.tick(self.now)
            node.settle()
        self.after(_TICK_S, self._tick)

    def _plan(self, node: _Node) -> None:
        node.cluster.put(node.row())
        start = self._clock()
        node.spilling.plan(node.machine.waiting.all(), self.now)
        self._plan_s += self._clock() - start
        self._plans += 1
        node.machine.dispatch(self.now)
        node.settle()

    def begin(self, node: _Node, owner: _Node, lease: Lease) -> None:
        """Use a new or free lease for the next task of its class. If no task is left, give the
        lease back.
        """
        kind = self.kinds[lease.demand.scheduling_class]
        queue = owner.waiting.get(kind.number)
        if not queue or (lease.is_due and lease.since < self.now):
            self.at(self.now, partial(self._give_back, node, lease))
            return
        came, run_s = queue.popleft()
        if not queue:
            del owner.waiting[kind.number]
        is_moved = kind.near not in ("", node.id) and (node.id, kind.number) not in self._fetched
        fetch_s = kind.argument_bytes / _BANDWIDTH if is_moved else 0.0
        self._fetched.add((node.id, kind.number))
        self._moved_bytes += kind.argument_bytes * is_moved
        self._waits.append(self.now + fetch_s - came)
        self._elsewhere += node is not owner
        self.after(fetch_s + run_s, partial(self._ended, node, owner, lease))

    def _ended(self, node: _Node, owner: _Node, lease: Lease) -> None:
        self.begin(node, owner, lease)
        owner.want(self.kinds[lease.demand.scheduling_class])
        owner.settle()

    def _give_back(self, node: _Node, lease: Lease) -> None:
        node.machine.returned(lease.number, True, self.now)
        node.settle()

    def _figures(self, load: float) -> Row:
        waits = sorted(self._waits)
        return {
            "load": load,
            "global scheduler": self._choice[0],
            "threshold": self._choice[1],
            "mean wait, s": sum(waits) / len(waits),
            "99 of 100 wait at most, s": waits[len(waits) * 99 // 100],
            "makespan, s": self.now,
            "ran elsewhere": self._elsewhere / len(waits),
            "GB fetched": self._moved_bytes / 1e9,
            "ms a plan": 1e3 * self._plan_s / self._plans,
            "choices a second": self.asked / self._plan_s,
        }
