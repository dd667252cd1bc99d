"""A cluster that is kept after its cycle and patched with changes, so that not everything is read
again.

Making a cycle's columns costs a pass over every node and task. A caller that decides repeatedly (a
head that runs for months, the simulator) keeps the columns instead, and patches what has changed:

    put_group, drop_group   a podgroup is new, has changed, or is gone
    add_rows, drop_rows     tasks become known, or are forgotten
    stand                   tasks wait, run, leave their nodes, or take no part
    set_nodes, set_queues   the nodes or the queues have changed

After each call the columns equal columns that are read from a snapshot of the same state. Only the
order of the lists differs: entries that were added later come later, whatever their names are.
After a cycle, `take_back` undoes the plan's promises. `stand` then sets what has become of the
tasks that the plan bound or evicted.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Final, NamedTuple

import msgspec
import numpy as np

from phalanx.scheduler.cycle import jobs as j
from phalanx.scheduler.cycle.amounts import Counts, is_counted
from phalanx.scheduler.cycle.cluster import Cluster, card_memory
from phalanx.scheduler.cycle.equivalence_class import EquivalenceClass
from phalanx.scheduler.cycle.hypernodes import HyperNodes
from phalanx.scheduler.cycle.jobs import Job, SubJob
from phalanx.scheduler.cycle.plan import Plan
from phalanx.scheduler.cycle.specs import (
    Amounts,
    NodeSpec,
    PodGroupSpec,
    QueueSpec,
    Snapshot,
    TaskSpec,
)

_SPARE = 64
"""The number of rows of forgotten tasks that may always remain, so that small clusters seldom
compact their rows.
"""

OUT: Final = j.SUCCEEDED
"""The state of a task that takes no part in a cycle. Its job does not count the task."""
_MARKS = (j.ALLOCATED, j.BINDING)
"""States that a plan gives to tasks. A task keeps such a state until `stand` sets another."""
_BOOKS = (
    *("idle", "future", "used", "releasing", "promised", "asked", "weighed", "seats"),
    *("held_in_queue", "changed_at"),
)
_LISTS = (
    *("_specs", "task_uid", "eq_classes", "eq_class", "node_of", "status", "_stood", "started"),
    *("job_of", "queues", "strays"),
)
_BY_NAME = (
    *(
        "job_index",
        "queue_index",
        "nominated",
        "homes",
        "cards",
        "_row_of",
        "_by_shape",
        "_others",
        "_described",
    ),
    *("_of_queues", "_label_masks"),
)


class NotPatchableError(ValueError):
    """A change that cannot be made in the columns. The whole snapshot must be read again."""


class Standing(NamedTuple):
    """The state of a task (PENDING, RUNNING, RELEASING or OUT), its node, when it began to run, and
    the GPU of which it has a part (see TaskSpec).
    """

    task: str
    status: int
    node: str = ""
    started: float | None = None
    card: int = -1


class KeptCluster(Cluster):
    """A cluster that can be patched. It starts from a snapshot without network domains, topologies
    or subgroups.

    Raises NotPatchableError for a snapshot with any of these, because they are read only once, when
    a Cluster is made.
    """

    def __init__(self, snapshot: Snapshot) -> None:
        bound = [g.uid for g in snapshot.podgroups if g.topology is not None or g.subgroups]
        if snapshot.hypernodes or bound:
            raise NotPatchableError(
                "a kept cluster has no network domains, topologies or subgroups; "
                f"this one has {', '.join(bound) or 'network domains'}"
            )
        super().__init__(snapshot)
        self._specs: list[TaskSpec] = list(self.tasks)
        self.tasks = self._specs
        self._by_shape = {eq_class.shape: eq_class for eq_class in self.eq_classes}
        self._row_of = {uid: t for t, uid in enumerate(self.task_uid)}
        self._stood = list(self.status)
        """The state of each task before the last plan."""
        self._gone = 0
        """The number of rows of forgotten tasks."""

    def copy(self) -> KeptCluster:
        """Return a copy of the columns as they are between cycles.

        Decisions and changes on the copy do not affect the original. Copying costs far less than
        reading everything.
        """
        other = copy.copy(self)
        for name in _BOOKS:
            setattr(other, name, getattr(self, name).copy("K"))
        for name in _LISTS:
            setattr(other, name, list(getattr(self, name)))
        for name in _BY_NAME:
            setattr(other, name, dict(getattr(self, name)))
        other.tasks = other._specs
        other.jobs = [job.copy() for job in self.jobs]
        other.answers = {}  # only the original object keeps its answers up to date
        other._on_node = None
        return other

    # -- podgroups ------------------------------------------------------------------------------

    def put_group(self, spec: PodGroupSpec) -> None:
        """Add a podgroup, or replace the description of a known one. A known podgroup stays in its
        queue.

        Raises NotPatchableError for an unknown queue, and for a podgroup with a topology or
        subgroups.
        """
        if spec.topology is not None or spec.subgroups:
            raise NotPatchableError(f"podgroup {spec.uid} has a topology or subgroups")
        index = self.job_index.get(spec.uid)
        if index is not None:
            job = self.jobs[index]
            if job.spec != spec:
                self._amend(job, spec)
            return
        queue = self.queue_index.get(spec.queue)
        if queue is None:
            raise NotPatchableError(
                f"podgroup {spec.uid} is for queue {spec.queue!r}, which does not exist"
            )
        job = Job(spec, len(self.jobs), queue, np.zeros(len(self.dims), dtype=np.int64))
        self._limit(job, spec)
        self.jobs.append(job)
        self.job_index[job.uid] = job.index

    def _amend(self, job: Job, spec: PodGroupSpec) -> None:
        counted_roles = bool(job.role_min)
        job.amend(spec)
        self._limit(job, spec)
        if job.role_min and not counted_roles:
            for t in job.tasks:
                self._count_role(job, t, self.status[t], 1)
        elif not job.role_min:
            job.role_counts = {}
        if job.default_subjob is not None:
            job.default_subjob.min_available = job.min_available

    def _limit(self, job: Job, spec: PodGroupSpec) -> None:
        job.min_resources = None
        if spec.min_resources is not None:
            self._check_names(spec.min_resources, f"podgroup {spec.uid} names")
            job.min_resources = self.dims.amount(spec.min_resources)

    def drop_group(self, uid: str) -> None:
        """Remove a podgroup. None of its tasks may take part any more."""
        index = self.job_index.pop(uid, None)
        if index is None:
            return
        job, last = self.jobs[index], self.jobs.pop()
        assert not job.tasks, f"tasks of {uid} still take part"
        if last is not job:
            self.jobs[index] = last
            last.index = self.job_index[last.uid] = index
            for t in last.tasks:
                self.job_of[t] = index

    # -- tasks ----------------------------------------------------------------------------------

    def knows(self, uid: str) -> bool:
        """Whether a task has a row."""
        return uid in self._row_of

    def add_rows(self, specs: Iterable[TaskSpec]) -> None:
        """Add rows for new tasks. The tasks take no part in cycles until `stand` sets their state.

        Raises NotPatchableError for a resource that no node, queue or earlier task names.
        """
        for spec in specs:
            eq_class = self._eq_class_for(spec)
            uid = spec.uid
            self._row_of[uid] = len(self.status)
            self._specs.append(spec)
            self.task_uid.append(uid)
            self.eq_class.append(eq_class)
            self.node_of.append(-1)
            self.status.append(OUT)
            self._stood.append(OUT)
            self.started.append(None)
            self.job_of.append(-1)

    def drop_rows(self, uids: Iterable[str]) -> None:
        """Forget tasks that take no part in cycles."""
        for uid in uids:
            t = self._row_of.pop(uid, None)
            if t is not None:
                assert self._stood[t] == OUT, f"task {uid} still takes part"
                self._gone += 1
        if self._gone > _SPARE + len(self.status) // 4:
            self._compact()

    def _eq_class_for(self, task: TaskSpec) -> EquivalenceClass:
        eq_class = self._by_shape.get(task.shape)
        if eq_class is None:
            self._check_names(task.shape.request, f"task {task.uid} asks for")
            eq_class = EquivalenceClass(len(self.eq_classes), task.shape, self.dims)
            self.eq_classes.append(eq_class)
            self._by_shape[task.shape] = eq_class
        return eq_class

    def _check_names(self, amounts: Amounts, who: str) -> None:
        for name, _ in amounts:
            if is_counted(name) and name not in self.dims.index:
                raise NotPatchableError(f"{who} {name}, which nothing here has")

    def stand(self, group: str, standings: Iterable[Standing]) -> None:
        """Set the state of these tasks of a podgroup, regardless of the state that the last plan
        gave them.
        """
        job = self.jobs[self.job_index[group]]
        alike = groupby(standings, key=self._likeness)
        for (eq_class, old, _, status), listed in alike:
            same = list(listed)
            rows = [self._row_of[one.task] for one in same]
            nodes = [self.node_index[one.node] if one.node else -1 for one in same]
            self._restand(job, self.eq_classes[eq_class], rows, old, status, nodes)
            for t, one in zip(rows, same, strict=True):
                self.started[t] = one.started
                if one.card >= 0:
                    self.cards[t] = one.card
                else:
                    self.cards.pop(t, None)
                if status != j.PENDING:
                    self.nominated.pop(t, None)
                if status not in (j.PENDING, j.RELEASING):
                    self.homes.pop(t, None)
        self._on_node = None

    def _likeness(self, standing: Standing) -> tuple[int, int, int, int]:
        # A leaving task may have left before the last plan evicted other tasks of the same state.
        t = self._row_of[standing.task]
        return self.eq_class[t].index, self.status[t], self._stood[t], standing.status

    def _restand(
        self,
        job: Job,
        eq_class: EquivalenceClass,
        rows: list[int],
        old: int,
        status: int,
        nodes: list[int],
    ) -> None:
        """Move tasks of one job and class from one state to another. All of them must have the same
        state now, and have had the same state before the plan. `nodes`: the new nodes; -1 for none.
        """
        before = [self.node_of[t] for t in rows]
        if old in _MARKS and (status != j.RUNNING or before != nodes):
            self.unplace(eq_class, rows, before)
            old, before = j.PENDING, [-1] * len(rows)
        if old == j.RELEASING and self._stood[rows[0]] != j.RELEASING:
            for t in rows:
                self.unevict(t, j.RUNNING)
            old = j.RUNNING
        if old != status or before != nodes:
            self._rebook(eq_class, before, old, -1)
            if old == OUT:
                self._take_part(job, eq_class, rows)
            for t, node in zip(rows, nodes, strict=True):
                self.node_of[t] = node
            if status == OUT:
                self._set_statuses(eq_class, rows, j.PENDING)
                self._drop_out(job, eq_class, rows)
            else:
                self._set_statuses(eq_class, rows, status)
            if old not in _MARKS:
                self._rebook(eq_class, nodes, status, 1)
        stood = sum(self._stood[t] == j.RUNNING for t in rows)
        stand = len(rows) if status == j.RUNNING else 0
        if stand != stood:
            self._hold_more(job, eq_class.request * (stand - stood))
        for t in rows:
            self._stood[t] = status

    def _rebook(
        self, eq_class: EquivalenceClass, nodes: Sequence[int], status: int, sign: int
    ) -> None:
        """Add the requests of tasks in the state `status` to the amounts of their nodes (`sign` 1),
        or subtract them (-1).
        """
        if status not in (j.RUNNING, j.RELEASING):
            return
        self._move(eq_class, nodes, j.RUNNING, sign)
        if status == j.RELEASING:
            load = eq_class.request * sign
            self.is_apart = True
            for node in nodes:
                self.releasing[node] += load
                self.future[node] += load

    def _take_part(self, job: Job, eq_class: EquivalenceClass, rows: list[int]) -> None:
        """Add tasks to their job as pending tasks."""
        if not job.tasks:
            job.eq_class = eq_class
            sub = SubJob(job, job.uid, job.uid, job.min_available, None)
            sub.counts, sub.tasks = job.counts, job.tasks
            job.subjobs[job.uid] = sub
        elif job.eq_class is not eq_class:
            job.eq_class = None
        job.tasks += rows
        if len(job.tasks) > len(rows):
            job.tasks.sort()  # the order in which they are read: by name
        job.total_request += eq_class.request * len(rows)
        for t in rows:
            self.job_of[t] = job.index
            self.status[t] = j.PENDING
            self._count(job, t, 1)

    def _drop_out(self, job: Job, eq_class: EquivalenceClass, rows: list[int]) -> None:
        """Remove pending tasks from their job."""
        for t in rows:
            self._count(job, t, -1)
            self.job_of[t] = -1
            self.status[t] = OUT
        gone = set(rows)
        job.tasks[:] = [t for t in job.tasks if t not in gone]
        job.total_request -= eq_class.request * len(rows)
        if not job.tasks:
            job.subjobs.clear()
        first = self.eq_class[job.tasks[0]] if job.tasks else None
        alike = all(self.eq_class[t] is first for t in job.tasks)
        job.eq_class = first if alike else None

    def _count(self, job: Job, t: int, n: int) -> None:
        self._count_sub(job, t, j.PENDING, n)
        if job.role_min:
            self._count_role(job, t, j.PENDING, n)

    # -- after a cycle --------------------------------------------------------------------------

    def take_back(self, plan: Plan) -> None:
        """Withdraw the promises of a plan that was made on these columns, and set the podgroups'
        new phases.

        Tasks that the plan bound or evicted keep the plan's state until `stand` sets another.
        """
        for uid in plan.held:
            t = self._row_of[uid]
            self.hold(t, self.node_index[plan.homes[uid]], -1)
        self.homes = {self._row_of[t]: self.node_index[node] for t, node in plan.homes.items()}
        for uid in plan.pipelined:
            t = self._row_of[uid]
            self.unplace(self.eq_class[t], [t], [self.node_of[t]])
        for uid, node in plan.nominations.items():
            self.nominated[self._row_of[uid]] = self.node_index[node]
        phases = plan.phases
        for job in self.jobs:
            phase = phases[job.uid]
            job.phase = "Inqueue" if phase == "Unknown" else phase
            if job.failed_roles:
                job.failed_roles.clear()
            if job.counts[j.ALLOCATED]:  # the podgroup did not become ready, so nothing was bound
                for t in [t for t in job.tasks if self.status[t] == j.ALLOCATED]:
                    self.unplace(self.eq_class[t], [t], [self.node_of[t]])
        self._on_node = None
        self.is_apart = bool(self.releasing.any() or self.promised.any())

    # -- nodes and queues -----------------------------------------------------------------------

    def set_nodes(self, specs: Iterable[NodeSpec]) -> None:
        """Set the nodes.

        Raises NotPatchableError if a node names a resource without a column, or if a node with a
        task is gone.
        """
        nodes = sorted(specs, key=lambda node: node.name)
        if nodes == self.nodes:
            return
        for node in nodes:
            self._check_names(node.capacity, f"node {node.name} has")
        if card_memory(nodes) != self.dims.card_memory:
            raise NotPatchableError("the largest GPU has another size")
        known = self.node_index
        was = [known.get(node.name, -1) for node in nodes]
        index_of = {old: new for new, old in enumerate(was) if old >= 0}
        index_of[-1] = -1
        if any(node not in index_of for node in self.node_of):
            raise NotPatchableError("tasks stand on a node that is gone")
        named = {name for node in nodes for name, _ in node.capacity}
        if any(name not in named for node in self.nodes for name, _ in node.capacity):
            raise NotPatchableError("nothing has a resource any more that a node had")
        self.node_of = [index_of[node] for node in self.node_of]
        self.nominated = {t: index_of[n] for t, n in self.nominated.items() if n in index_of}
        self.homes = {t: index_of[n] for t, n in self.homes.items() if n in index_of}
        loads = {
            name: _rows(getattr(self, name), was)
            for name in ("used", "releasing", "promised", "asked", "weighed", "seats")
        }
        self._nodes(nodes)
        for name, load in loads.items():
            setattr(self, name, load)
        self.idle = self.capacity - self.used
        self.future = self.idle + self.releasing - self.promised
        self._others = {name: x for name, x in self._others.items() if name in self.node_index}
        self.version += 1
        self.changed_at = np.full(len(nodes), self.version, dtype=np.int64)
        self.answers = {}
        self._described = {}
        self._of_queues = {}
        self.hypernodes = HyperNodes((), self.node_index)

    def set_queues(self, specs: Iterable[QueueSpec]) -> None:
        """Set the queues.

        Raises NotPatchableError if a queue names a resource without a column, or if a queue with a
        podgroup is gone.
        """
        queues = sorted(specs, key=lambda queue: queue.name)
        if queues == self.queues:
            return
        for queue in queues:
            for quota in (queue.capability, queue.deserved, queue.guarantee):
                self._check_names(quota, f"queue {queue.name} names")
        names = [queue.name for queue in queues]
        if names != list(self.queue_index):
            self._reorder(names)
        self.queues = queues
        self._of_queues = {}

    def _reorder(self, names: list[str]) -> None:
        if self.strays:
            raise NotPatchableError("a podgroup waits for its queue to exist")
        now = {name: index for index, name in enumerate(names)}
        if any(job.spec.queue not in now for job in self.jobs):
            raise NotPatchableError("a podgroup is in a queue that is gone")
        was = [self.queue_index.get(name, -1) for name in names]
        self.queue_index = now
        self.held_in_queue = _rows(self.held_in_queue, was)
        for job in self.jobs:
            job.queue = now[job.spec.queue]

    # -- rows -----------------------------------------------------------------------------------

    def _compact(self) -> None:
        """Remove the rows of forgotten tasks, and classes that have no task left."""
        stays = sorted(self._row_of.values())
        moved = dict(zip(stays, range(len(stays)), strict=True))
        self._specs = [self._specs[t] for t in stays]
        self.tasks = self._specs
        self.task_uid = [self.task_uid[t] for t in stays]
        self._row_of = {uid: t for t, uid in enumerate(self.task_uid)}
        for name in ("eq_class", "node_of", "status", "_stood", "started", "job_of"):
            column = getattr(self, name)
            setattr(self, name, [column[t] for t in stays])
        self.nominated = {moved[t]: node for t, node in self.nominated.items() if t in moved}
        self.homes = {moved[t]: node for t, node in self.homes.items() if t in moved}
        self.cards = {moved[t]: card for t, card in self.cards.items() if t in moved}
        for job in self.jobs:
            job.tasks[:] = [moved[t] for t in job.tasks]
        self._on_node = None
        self._gone = 0
        self._forget_eq_classes()

    def _forget_eq_classes(self) -> None:
        used = set(map(id, self.eq_class))
        answers = self.answers
        self.eq_classes = [eq_class for eq_class in self.eq_classes if id(eq_class) in used]
        self.answers = {}
        for index, eq_class in enumerate(self.eq_classes):
            known = answers.get((eq_class.index, -1))
            eq_class.index = index
            if known is not None:
                self.answers[(index, -1)] = known
        self._by_shape = {eq_class.shape: eq_class for eq_class in self.eq_classes}

    # -- all rows -------------------------------------------------------------------------------

    def snapshot_now(self) -> Snapshot:
        """Return the current state as a snapshot, without the amounts that other work takes
        (`occupy`).
        """
        return msgspec.structs.replace(
            self.snapshot,
            nodes=tuple(self.nodes),
            queues=tuple(self.queues),
            podgroups=(
                *(msgspec.structs.replace(job.spec, phase=job.phase) for job in self.jobs),
                *self.strays,
            ),
            tasks=tuple(self._task_now(t) for t, status in enumerate(self._stood) if status != OUT),
        )

    def _task_now(self, t: int) -> TaskSpec:
        node, nominated = self.node_of[t], self.nominated.get(t, -1)
        home = self.homes.get(t, -1)
        return msgspec.structs.replace(
            self._specs[t],
            node=self.node_names[node] if node >= 0 else "",
            phase=j.STATUS_NAMES[self._stood[t]],
            started=self.started[t],
            nominated_node=self.node_names[nominated] if nominated >= 0 else "",
            home=self.node_names[home] if home >= 0 else "",
            card=self.cards.get(t, -1),
        )


def _rows(books: Counts, was: list[int]) -> Counts:
    """Return a copy of the rows of `books` with the indexes `was`. The index -1 stands for a row of
    zeros.
    """
    out = np.zeros((len(was), *books.shape[1:]), dtype=np.int64, order="F")
    index = np.array(was, dtype=np.int64)
    there = index >= 0
    out[there] = books[index[there]]
    return out
