"""A cluster that outlives its cycle: work comes, runs and ends without reading the rest again.

A cycle's columns cost a pass over every node and task to make. Whoever decides over and over (the
simulator, a head that runs for months) keeps them instead, and tells what happened in between:

    admit    work that was submitted            settle   what the last cycle decided is done
    end      tasks that are through             amend    what a podgroup tells changed
    withdraw tasks that were taken off       released evicted tasks are off their nodes

After each of these the columns are what reading a snapshot of the same state would give, but for
the places of things in the lists: what comes later stands later, whatever its name.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Any

import msgspec

from phalanx.batch import jobs as j
from phalanx.batch.amounts import is_counted
from phalanx.batch.cluster import Cluster
from phalanx.batch.equivalence_class import EquivalenceClass
from phalanx.batch.jobs import Job, SubJob
from phalanx.batch.plan import Plan
from phalanx.batch.specs import PodGroupSpec, QueueSpec, Snapshot, TaskSpec

_SPARE = 64
"""So many podgroups that are over may always stay, so that small clusters seldom look for them."""


class KeptCluster(Cluster):
    """Starts as the cluster of a snapshot without network domains, topologies or subgroups.

    Raises ValueError for a snapshot with any of those: they are settled once for a whole cycle.
    """

    def __init__(self, snapshot: Snapshot) -> None:
        bound = [g.uid for g in snapshot.podgroups if g.topology is not None or g.subgroups]
        if snapshot.hypernodes or bound:
            raise ValueError(
                "a kept cluster has no network domains, topologies or subgroups; "
                f"this one has {', '.join(bound) or 'network domains'}"
            )
        super().__init__(snapshot)
        self._specs: list[TaskSpec] = list(self.tasks)
        self.tasks = self._specs
        self._by_shape = {eq_class.shape: eq_class for eq_class in self.eq_classes}
        self._task_at = {uid: t for t, uid in enumerate(self.task_uid)}
        self._ended = 0
        """Podgroups all of whose tasks are through."""

    # -- what happens between cycles ------------------------------------------------------------

    def admit(self, groups: Iterable[PodGroupSpec], tasks: Iterable[TaskSpec]) -> None:
        """Take in podgroups and pending tasks of podgroups that are known by then.

        Raises ValueError for a queue that does not exist, and for a resource that no node, queue
        or earlier task names.
        """
        for group in groups:
            queue = self.queue_index.get(group.queue)
            if queue is None:
                raise ValueError(
                    f"podgroup {group.uid} is for queue {group.queue!r}: there is none"
                )
            job = Job(group, len(self.jobs), queue, self.capacity[0] * 0)
            if group.min_resources is not None:
                job.min_resources = self.dims.amount(group.min_resources)
            self.jobs.append(job)
            self.job_index[job.uid] = job.index
        for task in tasks:
            self._admit(task)

    def _admit(self, task: TaskSpec) -> None:
        eq_class = self._eq_class_for(task)
        job = self.jobs[self.job_index[f"{task.shape.namespace}/{task.podgroup}"]]
        t = len(self.status)
        uid = task.uid
        self._specs.append(task)
        self.task_uid.append(uid)
        self._task_at[uid] = t
        self.eq_class.append(eq_class)
        self.node_of.append(-1)
        self.status.append(j.PENDING)
        self.job_of.append(job.index)
        if job.eq_class is not eq_class:
            job.eq_class = None if job.tasks else eq_class
        if not job.tasks:
            sub = SubJob(job, job.uid, job.uid, job.min_available, None)
            sub.counts, sub.tasks = job.counts, job.tasks
            job.subjobs[job.uid] = sub
        job.tasks.append(t)
        job.total_request += eq_class.request
        self._count_sub(job, t, j.PENDING, 1)
        if job.role_min:
            self._count_role(job, t, j.PENDING, 1)

    def _eq_class_for(self, task: TaskSpec) -> EquivalenceClass:
        eq_class = self._by_shape.get(task.shape)
        if eq_class is None:
            for name, _ in task.shape.request:
                if is_counted(name) and name not in self.dims.index:
                    raise ValueError(f"task {task.uid} asks for {name}, which nothing here has")
            eq_class = EquivalenceClass(len(self.eq_classes), task.shape, self.dims)
            self.eq_classes.append(eq_class)
            self._by_shape[task.shape] = eq_class
        return eq_class

    def end(self, uids: Iterable[str]) -> None:
        """These running tasks are through; the last one ends its podgroup."""
        for job, eq_class, tasks in self._alike([self._task_at[uid] for uid in uids]):
            self._move(eq_class, tasks, [self.node_of[t] for t in tasks], j.RUNNING, -1)
            self._set_statuses(eq_class, tasks, j.SUCCEEDED)
            for t in tasks:
                self._specs[t] = msgspec.structs.replace(self._specs[t], phase="Succeeded")
            self._hold_more(job, eq_class.request * -len(tasks))
            if _is_over(job):
                job.phase = "Completed"
                self._ended += 1
        self._on_node = None

    def _alike(self, tasks: Iterable[int]) -> Iterator[tuple[Job, EquivalenceClass, list[int]]]:
        """The tasks again, those of one job and class together as far as they follow each other."""
        for (job, _), group in groupby(tasks, lambda t: (self.job_of[t], self.eq_class[t].index)):
            listed = list(group)
            yield self.jobs[job], self.eq_class[listed[0]], listed

    def withdraw(self, uids: Iterable[str]) -> None:
        """Take running tasks off their nodes; they wait again."""
        for uid in uids:
            t = self._task_at[uid]
            self._free(t)
            self._let_go(t)

    def amend(self, uid: str, **told: Any) -> None:
        """Change what a podgroup tells of itself: `run_time_s`, `started`, `ran_s`, `turn`,
        `promised`, `ports`, `tried`."""
        job = self.jobs[self.job_index[uid]]
        job.spec = msgspec.structs.replace(job.spec, **told)

    def set_queue(self, spec: QueueSpec) -> None:
        """A queue that is known has other quotas, or another state.

        Raises ValueError for a resource that nothing here names.
        """
        for quota in (spec.capability, spec.deserved, spec.guarantee):
            for name, _ in quota:
                if is_counted(name) and name not in self.dims.index:
                    raise ValueError(f"queue {spec.name} names {name}, which nothing here has")
        self.queues[self.queue_index[spec.name]] = spec
        others = (q for q in self.snapshot.queues if q.name != spec.name)
        self.snapshot = msgspec.structs.replace(self.snapshot, queues=(*others, spec))

    def released(self, uids: Iterable[str]) -> None:
        """Tasks that a plan evicted, and that were leaving since, are off their nodes and wait."""
        for uid in uids:
            t = self._task_at[uid]
            self.unevict(t, j.RUNNING)
            self._free(t)

    def settle(self, plan: Plan, now: float, *, at_once: bool = True) -> None:
        """The plan that was made on these columns is carried out: bound tasks run since `now`,
        evicted ones are off their nodes and wait, promises are withdrawn. Unless `at_once`,
        evicted tasks are leaving until `released` tells that they have left."""
        for job, eq_class, tasks in self._alike([self._task_at[uid] for uid in plan.binds]):
            self._set_statuses(eq_class, tasks, j.RUNNING)
            self._hold_more(job, eq_class.request * len(tasks))
            for t in tasks:
                self._specs[t] = msgspec.structs.replace(
                    self._specs[t],
                    node=self.node_names[self.node_of[t]],
                    phase="Running",
                    started=now,
                    nominated_node="",
                )
        for eviction in plan.evictions:
            t = self._task_at[eviction.task]
            self._let_go(t)
            if at_once:
                self.unevict(t, j.RUNNING)
                self._free(t)
            else:
                self._specs[t] = msgspec.structs.replace(self._specs[t], phase="Releasing")
        for uid in plan.pipelined:
            t = self._task_at[uid]
            self.unplace(self.eq_class[t], [t], [self.node_of[t]])
        for uid, node in plan.nominations.items():
            t = self._task_at[uid]
            self._specs[t] = msgspec.structs.replace(self._specs[t], nominated_node=node)
        phases = plan.phases
        for job in self.jobs:
            phase = phases[job.uid]
            job.phase = "Inqueue" if phase == "Unknown" else phase
            if job.failed_roles:
                job.failed_roles.clear()
            if job.counts[j.ALLOCATED]:
                self._take_back(job)
        self._on_node = None
        if self._ended > _SPARE + len(self.jobs) // 4:
            self._forget()

    def _let_go(self, t: int) -> None:
        """The task's job holds that much less."""
        if self.job_of[t] >= 0:
            self._hold_more(self.jobs[self.job_of[t]], -self.eq_class[t].request)

    def _free(self, t: int) -> None:
        self.unplace(self.eq_class[t], [t], [self.node_of[t]])
        self._specs[t] = msgspec.structs.replace(
            self._specs[t], node="", phase="Pending", started=None
        )

    def _take_back(self, job: Job) -> None:
        """Places of a job that did not get ready, so that nothing was bound to them."""
        for t in job.tasks:
            if self.status[t] == j.ALLOCATED:
                self.unplace(self.eq_class[t], [t], [self.node_of[t]])

    def _forget(self) -> None:
        """Podgroups that are over leave the columns, and so do classes of which no task is left."""
        over = [_is_over(job) for job in self.jobs]
        self.jobs = [job for job in self.jobs if not over[job.index]]
        renumbered = {job.index: index for index, job in enumerate(self.jobs)}
        renumbered[-1] = -1
        stays = [t for t, index in enumerate(self.job_of) if index < 0 or not over[index]]
        moved = [-1] * len(self.job_of)
        for place, t in enumerate(stays):
            moved[t] = place
        self._specs = [self._specs[t] for t in stays]
        self.tasks = self._specs
        self.task_uid = [self.task_uid[t] for t in stays]
        self._task_at = {uid: t for t, uid in enumerate(self.task_uid)}
        self.eq_class = [self.eq_class[t] for t in stays]
        self.node_of = [self.node_of[t] for t in stays]
        self.status = [self.status[t] for t in stays]
        self.job_of = [renumbered[self.job_of[t]] for t in stays]
        for index, job in enumerate(self.jobs):
            job.index = index
            job.tasks[:] = [moved[t] for t in job.tasks]
        self.job_index = {job.uid: job.index for job in self.jobs}
        self._ended = 0
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


def _is_over(job: Job) -> bool:
    return 0 < len(job.tasks) == job.counts[j.SUCCEEDED]
