"""The scheduler's view of the simulated world: a kept cluster, and what its podgroups tell."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby, repeat
from operator import itemgetter
from typing import Any

import msgspec

from phalanx.batch.config import Configuration
from phalanx.batch.cycle import run_cycle
from phalanx.batch.jobs import PENDING, RUNNING
from phalanx.batch.kept import OUT, KeptCluster, Standing
from phalanx.batch.plan import Plan
from phalanx.batch.plugins.tiresias import ServiceQueues, limits_of
from phalanx.batch.specs import NodeSpec, PodGroupSpec, QueueSpec, Snapshot, TaskSpec
from phalanx.sim.timed.progress import Work
from phalanx.sim.timed.workload import GPU, Job, Rules


class Stage:
    """Runs cycles of the real session on the simulated state."""

    def __init__(
        self,
        nodes: Sequence[NodeSpec],
        queues: Sequence[QueueSpec],
        config: Configuration,
        rules: Rules,
        shells: Mapping[str, Any] | None = None,
    ) -> None:
        self._rules = rules
        self._shells = shells
        self._snapshot = Snapshot(config=config)
        self.cluster = KeptCluster(
            Snapshot(config=config, nodes=tuple(nodes), queues=tuple(queues))
        )
        self.task_at: dict[str, tuple[Work, int]] = {}
        """Tasks that did not end, by uid."""
        self.turns = _service_queues(config)

    def admit(self, works: Iterable[Work]) -> None:
        """Jobs are submitted."""
        for work in works:
            specs = _tasks(work.job)
            work.task_uids = [spec.uid for spec in specs]
            self.task_at.update((uid, (work, k)) for k, uid in enumerate(work.task_uids))
            run_time_s = work.job.work_s + self._start_cost(work.job)
            self.cluster.put_group(_podgroup(work.job, run_time_s))
            self.cluster.add_rows(specs)
            self._stand(work, range(len(specs)), PENDING)
            if self.turns is not None:
                self.turns.arrive((work.uid,))

    def end(self, work: Work, tasks: Sequence[int]) -> None:
        """Tasks are through."""
        self._stand(work, tasks, OUT)
        uids = [work.task_uids[k] for k in tasks]
        for uid in uids:
            del self.task_at[uid]
        self.cluster.drop_rows(uids)
        if work.finish is None:
            left = self._spec(work.uid).min_member - len(uids)
            self._amend(work.uid, min_member=max(left, 0))
        else:
            self.cluster.drop_group(work.uid)
            if self.turns is not None:
                self.turns.leave((work.uid,))
            work.task_uids = []

    def withdraw(self, work: Work, tasks: Iterable[int]) -> None:
        """Tasks are off their nodes and wait again."""
        self._stand(work, tasks, PENDING)

    def tell(self, work: Work) -> None:
        """The podgroup tells how long it ran and will run."""
        if work.since is None:
            self._amend(
                work.uid,
                run_time_s=work.longest() + self._start_cost(work.job),
                started=None,
                ran_s=work.ran,
            )
            return
        since = max(run.since for run in work.runs)
        self._amend(
            work.uid,
            run_time_s=work.longest() + max(run.unpaid for run in work.runs),
            started=since,
            ran_s=work.ran + since - work.since,
        )

    def _start_cost(self, job: Job) -> float:
        return job.overhead_s if self._rules.overhead == "start" else 0.0

    def decide(self, now: float) -> Plan:
        """One cycle of the session; the plan is carried out on the stage. Nobody asks a simulated
        cycle why the rest waits or where its time went: it neither explains nor times its parts,
        and the loop times it as a whole."""
        snapshot = msgspec.structs.replace(self._snapshot, now=now)
        plan = run_cycle(snapshot, shells=self._shells, cluster=self.cluster, explains=False)
        self.cluster.take_back(plan)
        for work, ks in self._by_work(plan.binds):
            nodes = [plan.binds[work.task_uids[k]] for k in ks]
            self._stand(work, ks, RUNNING, nodes, now)
        for work, ks in self._by_work(eviction.task for eviction in plan.evictions):
            self._stand(work, ks, PENDING)
        return plan

    def _by_work(self, uids: Iterable[str]) -> Iterator[tuple[Work, list[int]]]:
        for work, found in groupby(map(self.task_at.__getitem__, uids), key=itemgetter(0)):
            yield work, [k for _, k in found]

    def _stand(
        self,
        work: Work,
        tasks: Iterable[int],
        status: int,
        nodes: Iterable[str] = repeat(""),
        started: float | None = None,
    ) -> None:
        uids = (work.task_uids[k] for k in tasks)
        standings = [
            Standing(uid, status, node, started) for uid, node in zip(uids, nodes, strict=False)
        ]
        self.cluster.stand(work.uid, standings)

    def _spec(self, uid: str) -> PodGroupSpec:
        return self.cluster.jobs[self.cluster.job_index[uid]].spec

    def _amend(self, uid: str, **changes: Any) -> None:
        self.cluster.put_group(msgspec.structs.replace(self._spec(uid), **changes))

    # -- service queues -----------------------------------------------------------------------

    def take_turns(self, running: Iterable[Work], now: float) -> None:
        """Jobs fall into the service queues where they belong by now; all tell their turn."""
        if self.turns is None:
            return
        self.turns.serve({work.uid: _ran(work, now) * _gpus(work) for work in running})
        for turn, uid in enumerate(self.turns.order()):
            self._amend(uid, turn=turn)

    def keep_turns(self, running: Iterable[Work]) -> None:
        """Who runs after a cycle goes before who waits."""
        if self.turns is not None:
            self.turns.settle(frozenset(work.uid for work in running))

    def next_fall(self, running: Iterable[Work], now: float) -> float:
        """When the first running job will reach the limit of its service queue."""
        if self.turns is None:
            return float("inf")
        falls = [self.turns.falls_in_s(w.uid, _ran(w, now), _gpus(w)) for w in running]
        return now + min(falls, default=float("inf"))


def _service_queues(config: Configuration) -> ServiceQueues | None:
    for tier in config.tiers:
        for option in tier:
            if option.name == "tiresias":
                return ServiceQueues(limits_of(option.arguments))
    return None


def _ran(work: Work, now: float) -> float:
    return work.ran + (0.0 if work.since is None else now - work.since)


def _gpus(work: Work) -> float:
    return work.job.amount(GPU) or 1.0


def _podgroup(job: Job, run_time_s: float) -> PodGroupSpec:
    return PodGroupSpec(
        name=job.name,
        queue=job.queue,
        min_member=job.least,
        priority=job.priority,
        created=job.submit_s,
        user=job.user,
        run_time_s=run_time_s,
    )


def _tasks(job: Job) -> list[TaskSpec]:
    """One spec per task, named so that their order by name is their order in the job."""
    width = len(str(job.size - 1))
    out: list[TaskSpec] = []
    for part in job.parts:
        for _ in range(part.count):
            out.append(
                TaskSpec(
                    name=f"{job.name}-{len(out):0{width}d}",
                    podgroup=job.name,
                    shape=part.shape,
                    priority=job.priority,
                    created=job.submit_s,
                )
            )
    return out
