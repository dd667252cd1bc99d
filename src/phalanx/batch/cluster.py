"""The state that a cycle works on, as columns: nodes in arrays, tasks in lists, jobs in objects.

Everything is ordered by name, so that the order in which a snapshot lists things changes nothing.
All moves go through `place`, `unplace`, `evict` and `unevict`, which are each other's exact inverse.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from phalanx.batch import jobs as j
from phalanx.batch.amounts import CPU, MEMORY, PODS, Amount, Counts, Dimensions, Flags, Vector
from phalanx.batch.hypernodes import HyperNodes
from phalanx.batch.jobs import Job, SubJob
from phalanx.batch.matching import meets
from phalanx.batch.specs import Match, NetworkTopology, QueueSpec, Shape, Snapshot, TaskSpec

UNASKED_CPU = 100
UNASKED_MEMORY = 200 * 1024 * 1024
"""What kube-scheduler's scores take a task for that asks for no cpu or no memory."""

_PHASE_STATUS = {
    "Running": j.RUNNING,
    "Releasing": j.RELEASING,
    "Succeeded": j.SUCCEEDED,
    "Failed": j.FAILED,
    "Unknown": j.UNKNOWN,
}


class Klass:
    """Tasks of one shape: one request, one answer from every filter and scorer."""

    __slots__ = ("asked", "best_effort", "index", "labels", "request", "shape", "vector", "weighed")

    def __init__(self, index: int, shape: Shape, dims: Dimensions) -> None:
        self.index = index
        self.shape = shape
        self.labels = dict(shape.labels)
        self.request: Counts = dims.counts(shape.request)
        self.request[PODS] = 1
        self.vector: Vector = self.request.astype(np.float64)
        self.asked = [int(i) for i in np.flatnonzero(self.request)]
        """Resources of which it asks for some, pod slots included."""
        self.best_effort = not bool((self.request[dims.weighed] > 0).any())
        self.weighed: Counts = np.array(
            [
                self.request[CPU] or UNASKED_CPU,
                self.request[MEMORY] or UNASKED_MEMORY,
            ],
            dtype=np.int64,
        )

    def amount(self) -> Amount:
        return Amount(self.vector.copy(), self.request > 0)


class Cluster:
    """Columns of one cycle. Node arrays have one row per node, one column per resource.

    `idle`, `used`, `releasing` and `promised` are Volcano's books; `future` is what will be idle
    once evictions end. `asked` and `weighed` are the books of kube-scheduler's scores: they count
    promised tasks and drop evicted ones at once, and so does `seats`, the tasks on a node.
    """

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        names: set[str] = set()
        for node in snapshot.nodes:
            names.update(k for k, _ in node.capacity)
        shapes: dict[int, Shape] = {}
        for task in snapshot.tasks:
            shapes.setdefault(id(task.shape), task.shape)
        for shape in shapes.values():
            names.update(k for k, _ in shape.request)
        for queue in snapshot.queues:
            for quota in (queue.capability, queue.deserved, queue.guarantee):
                names.update(k for k, _ in quota)
        for group in snapshot.podgroups:
            names.update(k for k, _ in group.min_resources or ())
        self.dims = Dimensions(names)
        self._nodes(snapshot)
        self.queues: list[QueueSpec] = sorted(snapshot.queues, key=lambda q: q.name)
        self.queue_index = {q.name: i for i, q in enumerate(self.queues)}
        self._jobs(snapshot)
        self._tasks(snapshot)
        self._hold()
        self._subjobs()
        self._topologies()
        self.touched: list[int] = []
        """Every node whose books changed, in order: caches redo only what follows their mark."""

    def _nodes(self, snapshot: Snapshot) -> None:
        dims = self.dims
        self.nodes = sorted(snapshot.nodes, key=lambda n: n.name)
        self.node_names = [n.name for n in self.nodes]
        self.node_index = {n: i for i, n in enumerate(self.node_names)}
        self.labels = [dict(n.labels) for n in self.nodes]
        self._label_masks: dict[Match, Flags] = {}
        n, r = len(self.nodes), len(dims)
        self.capacity = np.zeros((n, r), dtype=np.int64)
        seen: dict[object, Counts] = {}
        for i, node in enumerate(self.nodes):
            row = seen.get(node.capacity)
            if row is None:
                row = seen[node.capacity] = dims.counts(node.capacity)
            self.capacity[i] = row
        self.idle = self.capacity.copy()
        self.future = self.capacity.copy()
        self.used = np.zeros((n, r), dtype=np.int64)
        self.releasing = np.zeros((n, r), dtype=np.int64)
        self.promised = np.zeros((n, r), dtype=np.int64)
        self.asked = np.zeros((n, r), dtype=np.int64)
        self.weighed = np.zeros((n, 2), dtype=np.int64)
        self.seats = np.zeros(n, dtype=np.int64)
        self.on_node: list[dict[int, None]] = [{} for _ in range(n)]
        has = np.zeros(r, dtype=np.bool_)
        has[:PODS] = True
        for node in self.nodes:
            for name, _ in node.capacity:
                at = dims.index.get(name)
                if at is not None:
                    has[at] = True
        self.total = Amount(self.capacity.sum(axis=0).astype(np.float64), has)

    def _jobs(self, snapshot: Snapshot) -> None:
        """Podgroups whose queue exists; tasks of the others stay on their nodes, but take no part."""
        zero = np.zeros(len(self.dims), dtype=np.int64)
        self.jobs: list[Job] = []
        self.strays = []
        for group in sorted(snapshot.podgroups, key=lambda g: g.uid):
            queue = self.queue_index.get(group.queue)
            if queue is None:
                self.strays.append(group)
                continue
            job = Job(group, len(self.jobs), queue, zero)
            if group.min_resources is not None:
                job.min_resources = self.dims.amount(group.min_resources)
            self.jobs.append(job)
        self.job_index = {job.uid: job.index for job in self.jobs}

    def _tasks(self, snapshot: Snapshot) -> None:
        self.tasks: list[TaskSpec] = sorted(snapshot.tasks, key=lambda t: t.uid)
        self.task_uid = [t.uid for t in self.tasks]
        self.klasses: list[Klass] = []
        by_shape: dict[Shape, Klass] = {}
        by_id: dict[int, Klass] = {}
        self.klass: list[Klass] = []
        self.job_of: list[int] = []
        self.status: list[int] = []
        self.node_of: list[int] = []
        self.sub_of: list[SubJob | None] = [None] * len(self.tasks)
        for t, task in enumerate(self.tasks):
            klass = by_id.get(id(task.shape))
            if klass is None:
                klass = by_shape.get(task.shape)
                if klass is None:
                    klass = Klass(len(self.klasses), task.shape, self.dims)
                    by_shape[task.shape] = klass
                    self.klasses.append(klass)
                by_id[id(task.shape)] = klass
            node = self.node_index.get(task.node, -1) if task.node else -1
            status = _PHASE_STATUS.get(task.phase)
            if status is None:
                status = j.BOUND if node >= 0 else j.PENDING
            job = self.job_index.get(f"{task.namespace}/{task.podgroup}", -1)
            self.klass.append(klass)
            self.job_of.append(job)
            self.status.append(status)
            self.node_of.append(node)
            if job >= 0:
                self.jobs[job].tasks.append(t)

    def _hold(self) -> None:
        """Enter the tasks that already stand on nodes into the books."""
        for t, node in enumerate(self.node_of):
            status = self.status[t]
            if node < 0 or status in (j.PENDING, j.SUCCEEDED, j.FAILED):
                continue
            klass = self.klass[t]
            self.idle[node] -= klass.request
            self.used[node] += klass.request
            if status == j.RELEASING:
                self.releasing[node] += klass.request
            self.asked[node] += klass.request
            self.weighed[node] += klass.weighed
            self.seats[node] += 1
            self.on_node[node][t] = None
        self.future = self.idle + self.releasing

    def _subjobs(self) -> None:
        for job in self.jobs:
            for t in job.tasks:
                klass = self.klass[t]
                status = self.status[t]
                self._count(job, t, status, 1)
                job.total_request += klass.request
                if status in j.HOLDING:
                    job.held += klass.request
                sub = self._subjob_for(job, t)
                self.sub_of[t] = sub
                sub.tasks.append(t)
                sub.priority = max(sub.priority, self.tasks[t].priority)
                if sub.counts is not job.counts:
                    self._count_sub(sub, t, status, 1)
            for uid, sub in job.subjobs.items():
                if uid == job.uid:
                    sub.allocated_hypernode = job.allocated_hypernode

    def _subjob_for(self, job: Job, t: int) -> SubJob:
        labels = self.klass[t].labels
        for policy in job.spec.subgroups:
            values = [labels.get(key, "") for key in policy.match_label_keys]
            if values and all(values):
                uid = f"{job.uid}/{policy.name}-{'-'.join(values)}"
                sub = job.subjobs.get(uid)
                if sub is None:
                    size = 1 if policy.size is None else policy.size
                    gid = f"{job.uid}/{policy.name}"
                    sub = SubJob(job, gid, uid, size, policy.topology)
                    sub.match_index = int(values[0]) if values[0].isdigit() else 0
                    job.subjobs[uid] = sub
                return sub
        sub = job.subjobs.get(job.uid)
        if sub is None:
            least = 1 if job.has_subgroups else job.min_available
            sub = SubJob(job, job.uid, job.uid, least, job.topology)
            if not job.has_subgroups:
                sub.counts = job.counts
            job.subjobs[job.uid] = sub
        return sub

    def _topologies(self) -> None:
        """Domains, and soft wishes turned into bounds that only the whole cluster reaches."""
        self.hypernodes = HyperNodes(self.snapshot.hypernodes, self.node_index)
        top = max(self.hypernodes.tier.values())
        for job in self.jobs:
            job.topology = _converted(job.topology, top)
            for sub in job.subjobs.values():
                sub.topology = _converted(sub.topology, top)
        self._learn_domains()

    def _learn_domains(self) -> None:
        """A part that already runs somewhere stays in the smallest domain that holds it."""
        if not self.hypernodes.given:
            return
        for job in self.jobs:
            if not job.has_topology():
                continue
            for sub in job.subjobs.values():
                if not sub.allocated_hypernode:
                    sub.allocated_hypernode = self._domain_of(sub.tasks)
            if not job.allocated_hypernode:
                job.allocated_hypernode = self._domain_of(job.tasks)

    def _domain_of(self, tasks: list[int]) -> str:
        found = ""
        for t in tasks:
            if self.node_of[t] >= 0 and self.status[t] in j.HOLDING:
                found = self.hypernodes.common(found, self.hypernodes.lowest_of(self.node_of[t]))
        return found

    def labelled(self, *matches: Match) -> Flags:
        """Nodes whose labels (or, for the key metadata.name, names) meet every match."""
        good = np.ones(len(self.nodes), dtype=np.bool_)
        for match in matches:
            mask = self._label_masks.get(match)
            if mask is None:
                if match.key == "metadata.name":
                    met = [meets({match.key: n}, (match,)) for n in self.node_names]
                else:
                    met = [meets(labels, (match,)) for labels in self.labels]
                mask = self._label_masks[match] = np.array(met, dtype=np.bool_)
            good &= mask
        return good

    # -- counting ---------------------------------------------------------------------------

    def _count(self, job: Job, t: int, status: int, n: int) -> None:
        job.counts[status] += n
        klass = self.klass[t]
        idle = status == j.PENDING and klass.best_effort
        if idle:
            job.counts[j.IDLE_PENDING] += n
        if job.role_min:
            c = job.role_counts.setdefault(klass.shape.role, [0] * 11)
            c[status] += n
            if idle:
                c[j.IDLE_PENDING] += n

    def _count_sub(self, sub: SubJob, t: int, status: int, n: int) -> None:
        sub.counts[status] += n
        if status == j.PENDING and self.klass[t].best_effort:
            sub.counts[j.IDLE_PENDING] += n

    def set_status(self, t: int, status: int) -> None:
        """Move one task to another state in all counts."""
        old = self.status[t]
        self.status[t] = status
        index = self.job_of[t]
        if index < 0:
            return
        job = self.jobs[index]
        self._count(job, t, old, -1)
        self._count(job, t, status, 1)
        sub = self.sub_of[t]
        if sub is not None and sub.counts is not job.counts:
            self._count_sub(sub, t, old, -1)
            self._count_sub(sub, t, status, 1)

    # -- moves ------------------------------------------------------------------------------

    def place(self, klass: Klass, tasks: Sequence[int], nodes: Sequence[int], status: int) -> None:
        """Put pending tasks of one class on nodes: ALLOCATED takes idle, PIPELINED future room."""
        self._move(klass, tasks, nodes, status, 1)
        job = self.jobs[self.job_of[tasks[0]]]
        plain = not (job.role_min or job.has_subgroups or klass.best_effort)
        for t, node in zip(tasks, nodes, strict=True):
            self.node_of[t] = node
            self.on_node[node][t] = None
            if plain:
                self.status[t] = status
            else:
                self.set_status(t, status)
        if plain:
            job.counts[j.PENDING] -= len(tasks)
            job.counts[status] += len(tasks)

    def unplace(self, klass: Klass, tasks: Sequence[int], nodes: Sequence[int]) -> None:
        """Undo `place`."""
        self._move(klass, tasks, nodes, self.status[tasks[0]], -1)
        for t, node in zip(tasks, nodes, strict=True):
            del self.on_node[node][t]
            self.node_of[t] = -1
            self.set_status(t, j.PENDING)

    def bind(self, tasks: Sequence[int]) -> None:
        """Allocated tasks go to their nodes."""
        job = self.jobs[self.job_of[tasks[0]]]
        if job.role_min or job.has_subgroups:
            for t in tasks:
                self.set_status(t, j.BINDING)
            return
        for t in tasks:
            self.status[t] = j.BINDING
        job.counts[j.ALLOCATED] -= len(tasks)
        job.counts[j.BINDING] += len(tasks)

    def _move(
        self, klass: Klass, tasks: Sequence[int], nodes: Sequence[int], status: int, sign: int
    ) -> None:
        if len(nodes) == 1:
            at: int | list[int] = nodes[0]
            load: Counts = klass.request * sign
            weight: Counts = klass.weighed * sign
            seats: int | Counts = sign
            self.touched.append(nodes[0])
        else:
            often: dict[int, int] = {}
            for node in nodes:
                often[node] = often.get(node, 0) + 1
            at = list(often)
            times = np.array(list(often.values()), dtype=np.int64) * sign
            load = times[:, None] * klass.request
            weight = times[:, None] * klass.weighed
            seats = times
            self.touched.extend(at)
        if status == j.PIPELINED:
            self.promised[at] += load
        else:
            self.idle[at] -= load
            self.used[at] += load
        self.future[at] -= load
        self.asked[at] += load
        self.weighed[at] += weight
        self.seats[at] += seats

    def evict(self, t: int) -> None:
        """Mark a running task as leaving: its node's future room grows, its idle room not yet."""
        self._leave(t, 1)
        self.set_status(t, j.RELEASING)

    def unevict(self, t: int, status: int) -> None:
        """Undo `evict`; `status` is the state before."""
        self._leave(t, -1)
        self.set_status(t, status)

    def _leave(self, t: int, sign: int) -> None:
        node, klass = self.node_of[t], self.klass[t]
        load = klass.request * sign
        self.releasing[node] += load
        self.future[node] += load
        self.asked[node] -= load
        self.weighed[node] -= klass.weighed * sign
        self.seats[node] -= sign
        self.touched.append(node)


def _converted(topology: NetworkTopology | None, top: int) -> NetworkTopology | None:
    if topology is None or topology.mode == "hard":
        return topology
    return NetworkTopology(mode="hard", highest_tier=top)
