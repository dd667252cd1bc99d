"""The state that a cycle works on, as columns: nodes in arrays, tasks in lists, jobs in objects.

Everything is sorted by name, so the order of entries in a snapshot changes nothing. All moves go
through four methods: `place` and its exact inverse `unplace`, `evict` and its exact inverse
`unevict`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np

from phalanx.model.gpu_sharing import MEMORY as GPU_MEMORY
from phalanx.scheduler.cycle import jobs as j
from phalanx.scheduler.cycle.amounts import CPU, MEMORY, PODS, Amount, Counts, Dimensions, Flags
from phalanx.scheduler.cycle.equivalence_class import EquivalenceClass, column_sums, sums_by_node
from phalanx.scheduler.cycle.hypernodes import HyperNodes
from phalanx.scheduler.cycle.jobs import Counted, Job, SubJob
from phalanx.scheduler.cycle.matching import meets
from phalanx.scheduler.cycle.parts import bound_and_settle, part_for
from phalanx.scheduler.cycle.specs import (
    Amounts,
    Match,
    NodeSpec,
    QueueSpec,
    Shape,
    Snapshot,
    TaskSpec,
)

T = TypeVar("T")

SHARED_DEVICES = ("volcano.sh/gpu-", "volcano.sh/vgpu-")
"""Prefixes of resources that are parts of devices. The deviceshare plugin counts such parts by
device.
"""

_PHASE_STATUS = {
    "Pending": -1,
    "Running": j.RUNNING,
    "Releasing": j.RELEASING,
    "Succeeded": j.SUCCEEDED,
    "Failed": j.FAILED,
    "Unknown": j.UNKNOWN,
}


def card_memory(nodes: Sequence[NodeSpec]) -> float:
    """Return the memory of the largest GPU of all nodes in bytes; 0 if no node states any."""
    return max(
        (x for node in nodes for name, x in node.capacity if name == GPU_MEMORY), default=0.0
    )


class Cluster:
    """The columns of one cycle.

    Node arrays have one row per node and one column per resource. A column is contiguous in memory,
    because rules read one resource of many nodes. `idle`, `used`, `releasing` and `promised` are
    Volcano's amounts. `future` is the room that will be idle once evictions end. `seats` is the
    number of tasks on each node. kube-scheduler's scores read `asked`, the requested amounts, and
    `weighed`, the requested CPU and memory; in `weighed`, a task that requests none of them counts
    as a small task. `asked`, `weighed` and `seats` include promised tasks, and no evicted tasks.
    """

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        names: set[str] = set()
        for node in snapshot.nodes:
            names.update(k for k, _ in node.capacity)
        shapes = [t.shape for t in snapshot.tasks]
        distinct = dict(zip(map(id, shapes), shapes, strict=True))
        for shape in distinct.values():
            names.update(k for k, _ in shape.request)
        for queue in snapshot.queues:
            for quota in (queue.capability, queue.deserved, queue.guarantee):
                names.update(k for k, _ in quota)
        for group in snapshot.podgroups:
            names.update(k for k, _ in group.min_resources or ())
        if "deviceshare" in snapshot.config.plugin_names():
            names = {n for n in names if not n.startswith(SHARED_DEVICES)}
        self.dims = Dimensions(names, card_memory(snapshot.nodes))
        self._nodes(snapshot.nodes)
        self.queues: list[QueueSpec] = sorted(snapshot.queues, key=lambda q: q.name)
        self.queue_index = {q.name: i for i, q in enumerate(self.queues)}
        self._jobs(snapshot)
        self._hold(*self._tasks(snapshot, distinct))
        self._subjobs()
        self.hypernodes = HyperNodes(snapshot.hypernodes, self.node_index)
        is_strict = snapshot.config.compat == "none"
        bound_and_settle(self.jobs, self.hypernodes, self.node_of, self.status, is_strict)
        self.version = 0
        self._others: dict[str, Counts] = {}
        """The amounts that outside work holds on each node (see `occupy`)."""
        self.changed_at = np.zeros(len(self.nodes), dtype=np.int64)
        """The version at which the amounts of each node last changed. A cache computes a node's
        answers again only if the node has changed since the cache was filled.
        """
        self.answers: dict[tuple[int, int], Any] = {}
        """The placer's answers about classes and nodes. They stay valid for later cycles."""
        self._described: dict[str, Any] = {}
        self._of_queues: dict[str, Any] = {}
        self.is_apart = bool(self.releasing.any())
        """Whether idle room and future room may differ on any node."""

    def _nodes(self, specs: Sequence[NodeSpec]) -> None:
        dims = self.dims
        self.nodes = sorted(specs, key=lambda n: n.name)
        self.node_names = [n.name for n in self.nodes]
        self.node_index = {n: i for i, n in enumerate(self.node_names)}
        self.labels = [dict(n.labels) for n in self.nodes]
        self._label_masks: dict[Match, Flags] = {}
        n, r = len(self.nodes), len(dims)
        self.capacity = np.zeros((n, r), dtype=np.int64, order="F")
        seen: dict[object, Counts] = {}
        for i, node in enumerate(self.nodes):
            row = seen.get(node.capacity)
            if row is None:
                row = seen[node.capacity] = dims.counts(node.capacity)
            self.capacity[i] = row
        self.idle = self.capacity.copy("F")
        self.future = self.capacity.copy("F")
        self.used = np.zeros((n, r), dtype=np.int64, order="F")
        self.releasing = np.zeros((n, r), dtype=np.int64, order="F")
        self.promised = np.zeros((n, r), dtype=np.int64, order="F")
        self.asked = np.zeros((n, r), dtype=np.int64, order="F")
        self.weighed = np.zeros((n, 2), dtype=np.int64, order="F")
        self.seats = np.zeros(n, dtype=np.int64)
        self._on_node: list[dict[int, None]] | None = None
        has = np.zeros(r, dtype=np.bool_)
        has[:PODS] = True
        for node in self.nodes:
            for name, _ in node.capacity:
                at = dims.index.get(name)
                if at is not None:
                    has[at] = True
        self.total = Amount(self.capacity.sum(axis=0).astype(np.float64), has)

    def _jobs(self, snapshot: Snapshot) -> None:
        """Make jobs from the podgroups whose queues exist.

        Tasks of other podgroups keep their nodes, but take no part in the cycle.
        """
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
        self.held_in_queue = np.zeros((len(self.queues), len(self.dims)), dtype=np.int64)
        """The amounts that each queue's jobs hold at the start of the cycle."""

    def _hold_more(self, job: Job, load: Counts) -> None:
        """Add `load` to the amounts that a job holds at the start of the next cycle. With negative
        numbers, subtract from them.
        """
        job.held += load
        self.held_in_queue[job.queue] += load

    def _tasks(self, snapshot: Snapshot, shapes: dict[int, Shape]) -> tuple[Counts, Counts, Counts]:
        """Fill the columns of tasks: one list for each attribute, because a snapshot may have a
        hundred thousand tasks.

        Returns the status and the node of each task, and the tasks sorted by job. Tasks without a
        job come first.
        """
        self.tasks: Sequence[TaskSpec] = snapshot.tasks
        self.task_uid = [f"{t.shape.namespace}/{t.name}" for t in snapshot.tasks]
        uids = sorted(self.task_uid)
        if uids != self.task_uid:
            order = sorted(range(len(uids)), key=self.task_uid.__getitem__)
            self.tasks = [snapshot.tasks[i] for i in order]
            self.task_uid = uids
        self.eq_classes: list[EquivalenceClass] = []
        by_shape: dict[Shape, EquivalenceClass] = {}
        by_id: dict[int, EquivalenceClass] = {}
        for key, shape in shapes.items():
            eq_class = by_shape.get(shape)
            if eq_class is None:
                eq_class = by_shape[shape] = EquivalenceClass(
                    len(self.eq_classes), shape, self.dims
                )
                self.eq_classes.append(eq_class)
            by_id[key] = eq_class
        self.eq_class: list[EquivalenceClass] = [by_id[id(t.shape)] for t in self.tasks]
        self.started: list[float | None] = [t.started for t in self.tasks]
        self.nominated: dict[int, int] = {
            t: self.node_index[task.nominated_node]
            for t, task in enumerate(self.tasks)
            if task.nominated_node in self.node_index
        }
        """The node that evictions of an earlier cycle set aside for a task, if that node still
        exists.
        """
        self.homes: dict[int, int] = {
            t: self.node_index[task.home]
            for t, task in enumerate(self.tasks)
            if task.home in self.node_index
        }
        """The node that a move of an earlier cycle set aside for a task (see `cycle.moves`)."""
        self.cards: dict[int, int] = {
            t: task.card for t, task in enumerate(self.tasks) if task.card >= 0
        }
        """The GPU of which a running task has a part, if it is known."""
        node_index = {**self.node_index, "": -1}
        self.node_of: list[int] = [node_index[t.node] for t in self.tasks]
        known = _PHASE_STATUS
        written = np.array([known[t.phase] for t in self.tasks], dtype=np.int64)
        nodes = np.array(self.node_of, dtype=np.int64)
        undecided = np.where(nodes >= 0, j.BOUND, j.PENDING)
        status = np.where(written < 0, undecided, written)
        self.status: list[int] = status.tolist()
        job_at = {(job.spec.namespace, job.spec.name): job.index for job in self.jobs}
        self.job_of: list[int] = [
            job_at.get((t.shape.namespace, t.podgroup), -1) for t in self.tasks
        ]
        jobs = np.array(self.job_of, dtype=np.int64)
        by_job = np.argsort(jobs, kind="stable")
        ends = np.searchsorted(jobs[by_job], np.arange(len(self.jobs) + 1)).tolist()
        grouped = by_job.tolist()
        eq_classes = np.array([eq_class.index for eq_class in self.eq_class], dtype=np.int64)[
            by_job
        ]
        borders = np.concatenate(([0, 0], np.cumsum(eq_classes[1:] != eq_classes[:-1]))).tolist()
        for job in self.jobs:
            start, end = ends[job.index], ends[job.index + 1]
            job.tasks = grouped[start:end]
            if start < end and borders[start + 1] == borders[end]:
                job.eq_class = self.eq_class[grouped[start]]
        return status, nodes, by_job

    def _hold(self, status: Counts, nodes: Counts, by_job: Counts) -> None:
        """Add the tasks that are already on nodes to the nodes' amounts, and count all tasks by
        job.
        """
        if not self.tasks:
            return
        of_class = np.array([k.index for k in self.eq_class])
        requests = np.array([k.request for k in self.eq_classes])
        weights = np.array([k.weighed for k in self.eq_classes])
        gone = (status == j.PENDING) | (status == j.SUCCEEDED) | (status == j.FAILED)
        here = np.flatnonzero((nodes >= 0) & ~gone)
        at, load = nodes[here], requests[of_class[here]]
        self.used += sums_by_node(at, load, len(self.nodes))
        leaving = status[here] == j.RELEASING
        self.releasing += sums_by_node(at[leaving], load[leaving], len(self.nodes))
        self.weighed += sums_by_node(at, weights[of_class[here]], len(self.nodes))
        self.seats += np.bincount(at, minlength=len(self.nodes))
        self.idle -= self.used
        self.asked += self.used
        self.future = self.idle + self.releasing
        self._count_jobs(status, of_class, requests, by_job)

    def _count_jobs(
        self, status: Counts, of_class: Counts, requests: Counts, by_job: Counts
    ) -> None:
        jobs = np.array(self.job_of)
        mine = by_job[np.searchsorted(jobs[by_job], 0) :]
        sizes = np.bincount(jobs[mine], minlength=len(self.jobs))
        ends = np.concatenate(([0], np.cumsum(sizes)))
        loads = requests[of_class[mine]]
        total = column_sums(loads, ends)
        held = column_sums(loads * np.isin(status[mine], list(j.HOLDING))[:, None], ends)
        slots = jobs[mine] * j.SLOTS + status[mine]
        counts = np.bincount(slots, minlength=len(self.jobs) * j.SLOTS)
        table = counts.reshape(len(self.jobs), j.SLOTS).tolist()
        for job, row in zip(self.jobs, table, strict=True):
            job.counts[:] = row
            self._hold_more(job, held[job.index])
            job.total_request = total[job.index]
        idle_classes = [k.index for k in self.eq_classes if k.best_effort]
        if idle_classes:
            idle = mine[(status[mine] == j.PENDING) & np.isin(of_class[mine], idle_classes)]
            for index in jobs[idle].tolist():
                self.jobs[index].counts[j.IDLE_PENDING] += 1

    @property
    def on_node(self) -> list[dict[int, None]]:
        """The tasks on each node, including tasks that are leaving. Computed on first use."""
        if self._on_node is None:
            self._on_node = [{} for _ in self.nodes]
            for t, node in enumerate(self.node_of):
                if node >= 0 and self.status[t] not in (j.PENDING, j.SUCCEEDED, j.FAILED):
                    self._on_node[node][t] = None
        return self._on_node

    def _subjobs(self) -> None:
        """Make the parts of each job: one part for each subgroup, or a single part that shares the
        job's counts.
        """
        self._sub_of: dict[int, SubJob] = {}
        for job in self.jobs:
            if job.role_min:
                for t in job.tasks:
                    self._count_role(job, t, self.status[t], 1)
            if not job.has_subgroups:
                sub = SubJob(job, job.uid, job.uid, job.min_available, job.topology)
                sub.counts, sub.tasks = job.counts, job.tasks
                if job.tasks:
                    job.subjobs[job.uid] = sub
            for t in job.tasks if job.has_subgroups else ():
                sub = part_for(job, self.eq_class[t].labels)
                self._sub_of[t] = sub
                sub.tasks.append(t)
                sub.priority = max(sub.priority, self.tasks[t].priority)
                self._count_sub(sub, t, self.status[t], 1)
            default = job.default_subjob
            if default is not None:
                default.allocated_hypernode = job.allocated_hypernode

    def sub_of(self, t: int) -> SubJob | None:
        """Return the part of the job to which a task belongs; None for a task without a job."""
        index = self.job_of[t]
        if index < 0:
            return None
        job = self.jobs[index]
        return self._sub_of[t] if job.has_subgroups else job.default_subjob

    def described(self, name: str, make: Callable[[Sequence[NodeSpec]], T]) -> T:
        """Return what `make` computes from the nodes alone. The value is computed once, and kept
        under `name` for later cycles.
        """
        if name not in self._described:
            self._described[name] = make(self.nodes)
        found: T = self._described[name]
        return found

    def of_queues(self, name: str, make: Callable[[Cluster], T]) -> T:
        """Return what `make` computes from the queues and the nodes alone. The value is computed
        once, and kept under `name` for later cycles, so callers must not change it.
        """
        if name not in self._of_queues:
            self._of_queues[name] = make(self)
        found: T = self._of_queues[name]
        return found

    def _label_column(self, key: str) -> list[str | None]:
        if key == "metadata.name":
            return list(self.node_names)
        return [labels.get(key) for labels in self.labels]

    def labelled(self, *matches: Match) -> Flags:
        """Return a mask of the nodes whose labels satisfy every match. The key metadata.name stands
        for the node's name.
        """
        good = np.ones(len(self.nodes), dtype=np.bool_)
        for match in matches:
            mask = self._label_masks.get(match)
            if mask is None:
                values = self._label_column(match.key)
                met = {v: meets({} if v is None else {match.key: v}, (match,)) for v in set(values)}
                mask = np.array([met[v] for v in values], dtype=np.bool_)
                self._label_masks[match] = mask
            good &= mask
        return good

    # -- counting ---------------------------------------------------------------------------

    def _count_role(self, job: Job, t: int, status: int, n: int) -> None:
        eq_class = self.eq_class[t]
        c = job.role_counts.setdefault(eq_class.shape.role, [0] * j.SLOTS)
        c[status] += n
        if status == j.PENDING and eq_class.best_effort:
            c[j.IDLE_PENDING] += n

    def _count_sub(self, part: Counted, t: int, status: int, n: int) -> None:
        part.counts[status] += n
        if status == j.PENDING and self.eq_class[t].best_effort:
            part.counts[j.IDLE_PENDING] += n

    def set_status(self, t: int, status: int) -> None:
        """Move one task to another state in all counts."""
        old = self.status[t]
        self.status[t] = status
        index = self.job_of[t]
        if index < 0:
            return
        job = self.jobs[index]
        parts: list[Counted] = [job]
        if job.has_subgroups:
            parts.append(self._sub_of[t])
        for part in parts:
            self._count_sub(part, t, old, -1)
            self._count_sub(part, t, status, 1)
        if job.role_min:
            self._count_role(job, t, old, -1)
            self._count_role(job, t, status, 1)

    def _set_statuses(self, eq_class: EquivalenceClass, tasks: Sequence[int], status: int) -> None:
        """Move several tasks to another state in all counts. The tasks must belong to one job and
        one class, and must all be in the same state now.
        """
        index = self.job_of[tasks[0]]
        job = self.jobs[index]
        if index < 0 or job.role_min or job.has_subgroups or eq_class.best_effort:
            for t in tasks:
                self.set_status(t, status)
            return
        column = self.status
        job.counts[column[tasks[0]]] -= len(tasks)
        job.counts[status] += len(tasks)
        for t in tasks:
            column[t] = status

    # -- moves ------------------------------------------------------------------------------

    def place(
        self, eq_class: EquivalenceClass, tasks: Sequence[int], nodes: Sequence[int], status: int
    ) -> None:
        """Put pending tasks of one class on nodes. ALLOCATED takes idle room, PIPELINED takes
        future room.
        """
        self._move(eq_class, nodes, status, 1)
        there = self._on_node
        for t, node in zip(tasks, nodes, strict=True):
            self.node_of[t] = node
            if there is not None:
                there[node][t] = None
        self._set_statuses(eq_class, tasks, status)

    def unplace(
        self, eq_class: EquivalenceClass, tasks: Sequence[int], nodes: Sequence[int]
    ) -> None:
        """Undo `place`."""
        self._move(eq_class, nodes, self.status[tasks[0]], -1)
        for t, node in zip(tasks, nodes, strict=True):
            if self._on_node is not None:
                del self._on_node[node][t]
            self.node_of[t] = -1
        self._set_statuses(eq_class, tasks, j.PENDING)

    def bind(self, tasks: Sequence[int]) -> None:
        """Mark allocated tasks as bound to their nodes."""
        self._set_statuses(self.eq_class[tasks[0]], tasks, j.BINDING)

    def _move(
        self, eq_class: EquivalenceClass, nodes: Sequence[int], status: int, sign: int
    ) -> None:
        """Add the request of the class to the amounts of each of these nodes (`sign` 1), or
        subtract it (`sign` -1).
        """
        if len(nodes) == 1:
            at: int | Counts = nodes[0]
            load: Counts = eq_class.request * sign
            weight: Counts = eq_class.weighed * sign
            seats: int | Counts = sign
        else:
            often: dict[int, int] = {}
            for node in nodes:
                often[node] = often.get(node, 0) + 1
            # these rows are the basis of all counts below
            at = np.array(list(often), dtype=np.int64)
            times = np.array(list(often.values()), dtype=np.int64) * sign
            load = times[:, None] * eq_class.request
            weight = times[:, None] * eq_class.weighed
            seats = times
        if status == j.PIPELINED:
            self.promised[at] += load
            self.is_apart = True
        else:
            self.idle[at] -= load
            self.used[at] += load
        self.future[at] -= load
        self.asked[at] += load
        self.weighed[at] += weight
        self.seats[at] += seats
        self.version += 1
        self.changed_at[at] = self.version

    def touch(self, nodes: Sequence[int]) -> None:
        """Mark these nodes as changed, so that caches compute their answers about them again."""
        self.version += 1
        self.changed_at[list(nodes)] = self.version

    def occupy(self, node: str, amounts: Amounts) -> None:
        """Set the amounts that outside work holds on a node.

        Outside work is work that has no tasks in these columns, such as tasks and actors that run
        without a queue. The node's free amounts change by the difference from the last call.
        """
        at = self.node_index[node]
        load = self.dims.counts(amounts)
        more = load - self._others.get(node, 0)
        if not more.any():
            return
        if load.any():
            self._others[node] = load
        else:
            del self._others[node]
        self.idle[at] -= more
        self.used[at] += more
        self.future[at] -= more
        self.asked[at] += more
        self.weighed[at] += more[[CPU, MEMORY]]
        self.version += 1
        self.changed_at[at] = self.version

    def held_by_others(self, resource: str, nodes: Flags) -> float:
        """Return how much of a resource outside work (see `occupy`) holds on all of these nodes
        together.
        """
        r = self.dims.index.get(resource)
        if r is None:
            return 0.0
        loads = (x for name, x in self._others.items() if nodes[self.node_index[name]])
        return self.dims.written(r, float(sum(int(x[r]) for x in loads)))

    def taken_by_others(self, node: int, resource: int) -> int:
        """Return how much of a resource outside work (see `occupy`) holds on one node, in counted
        units.
        """
        load = self._others.get(self.node_names[node])
        return 0 if load is None else int(load[resource])

    def nodes_of_others(self) -> list[int]:
        """Return the nodes on which outside work (see `occupy`) holds something."""
        return [self.node_index[name] for name in self._others]

    def evict(self, t: int) -> None:
        """Mark a running task as leaving. The node's future room grows now, and its idle room when
        the task has left.
        """
        self._leave(t, 1)
        self.set_status(t, j.RELEASING)

    def hold(self, t: int, node: int, sign: int = 1) -> None:
        """Set room on a node aside for a task that is leaving another node. With a `sign` of -1,
        give this room up again.
        """
        self._move(self.eq_class[t], [node], j.PIPELINED, sign)

    def take_homes(self, other: Cluster) -> None:
        """Take over the tasks' homes (see `cycle.moves`) from another Cluster.

        A task keeps its home if it waits or is leaving its node, and if the home is a node of this
        Cluster.
        """
        if not other.homes:
            return
        homes = {other.task_uid[t]: other.node_names[n] for t, n in other.homes.items()}
        self.homes = {
            t: self.node_index[homes[uid]]
            for t, uid in enumerate(self.task_uid)
            if homes.get(uid) in self.node_index and self.status[t] in (j.PENDING, j.RELEASING)
        }

    def unevict(self, t: int, status: int) -> None:
        """Undo `evict`; `status` is the task's state before the eviction."""
        self._leave(t, -1)
        self.set_status(t, status)

    def _leave(self, t: int, sign: int) -> None:
        node, eq_class = self.node_of[t], self.eq_class[t]
        load = eq_class.request * sign
        self.is_apart = True
        self.releasing[node] += load
        self.future[node] += load
        self.asked[node] -= load
        self.weighed[node] -= eq_class.weighed * sign
        self.seats[node] -= sign
        self.version += 1
        self.changed_at[node] = self.version
