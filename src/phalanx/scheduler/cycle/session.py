"""The workspace of one cycle: the cluster's columns, the plugins' hooks, and the orders that
plugins define.

Actions ask the session, and plugins answer through the session. Actions and plugins do not know
each other.
"""

from __future__ import annotations

import functools
import heapq
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

import msgspec

from phalanx.scheduler.cycle import jobs as j
from phalanx.scheduler.cycle.amounts import Flags
from phalanx.scheduler.cycle.arguments import count
from phalanx.scheduler.cycle.attempts import Attempt
from phalanx.scheduler.cycle.cluster import Cluster
from phalanx.scheduler.cycle.config import Configuration
from phalanx.scheduler.cycle.equivalence_class import EquivalenceClass
from phalanx.scheduler.cycle.hooks import HookRegistry
from phalanx.scheduler.cycle.jobs import Job, SubJob
from phalanx.scheduler.cycle.placing import Placer
from phalanx.scheduler.cycle.plan import Choice, Eviction, Moves, Rejection
from phalanx.scheduler.cycle.rows import Ask, Change
from phalanx.scheduler.cycle.specs import Snapshot
from phalanx.scheduler.cycle.stopwatch import Stopwatch

CHOICES = 32
"""The number of podgroups per cycle for which the scores of the chosen node are recorded by
plugin.
"""


class Plugin(Protocol):
    """A plugin. It is made with the arguments of its entry, and registers hooks when a session
    opens.
    """

    name: str

    def open(self, session: Session) -> None: ...


class Session:
    """One cycle's workspace for actions and plugins. It refers to tasks, nodes and queues by
    index.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        shells: Mapping[str, Any] | None = None,
        cluster: Cluster | None = None,
        watch: Stopwatch | None = None,
        *,
        explains: bool = True,
    ) -> None:
        self.snapshot = snapshot
        self.config: Configuration = snapshot.config
        self.now = snapshot.now
        self.shells = dict(shells or {})
        """Connections to the outside that the caller lends to plugins, by name."""
        self.cluster = Cluster(snapshot) if cluster is None else cluster
        self.hooks = HookRegistry(self.config)
        self._watch = watch
        self.explains = explains
        """Whether the plan must explain why the remaining work waits."""
        self.placer = Placer(self.cluster, self.hooks)
        self.binds: dict[int, int] = {}
        self.evictions: dict[int, Eviction] = {}
        self.refusals: dict[str, list[Rejection]] = {}
        """Rejections of whole podgroups, by uid."""
        self.attempts: dict[str, Attempt] = {}
        """For each podgroup, by uid: the undone attempt that had placed the most tasks."""
        self.choices: dict[str, Choice] = {}
        """Why the first task of a podgroup went to its node, by uid, for the first podgroups that
        were tried.
        """
        self.kept_places: set[int] = set()
        """Promised tasks whose nodes the next cycle tries first, even if nothing is evicted there.
        """
        self.homes: dict[int, int] = {}
        """The nodes that moves set aside for tasks, now or in an earlier cycle (see `moves`)."""
        self.moves: list[Moves] = []
        """The moves that this cycle decided."""
        self.warnings: list[str] = []
        self.acted: list[str] = []
        """Plugins that did their periodic work in this cycle."""
        self.task_keys: dict[int, tuple[Any, ...]] = {}
        self._tie_breaks: dict[int, int] = {}

    @property
    def strict(self) -> bool:
        """Whether Volcano's quirks are avoided (compat: none)."""
        return self.hooks.strict

    # -- what plugins register ----------------------------------------------------------------

    def add(self, hook: str, plugin: str, fn: Any) -> None:
        """Register a hook (see hooks.HOOKS)."""
        if self._watch is not None:
            fn = self._watch.hook(hook, plugin, fn)
        self.hooks.add(hook, plugin, fn)

    def is_on(self, plugin: str, switch: str) -> bool:
        return self.hooks.is_on(plugin, switch)

    def close(self) -> None:
        """Drop the plugins' hooks, because the session is no longer needed. Without hooks the
        session has no reference cycles, so its memory is freed immediately, without the garbage
        collector.
        """
        self.hooks.clear()
        del self.placer

    def warn(self, text: str) -> None:
        self.warnings.append(text)

    def start_if_due(self, plugin: str, period_s: float) -> bool:
        """Return whether a plugin's periodic work is due. If it is, record that the plugin does it
        in this cycle.
        """
        last = dict(self.snapshot.last_acted).get(plugin)
        due = last is None or self.now >= last + period_s
        if due:
            self.acted.append(plugin)
        return due

    def refuse(self, job: Job, rejection: Rejection, plugin: str = "") -> None:
        """Record why a plugin turned a whole podgroup away. Equal rejections are recorded once."""
        if not self.explains:
            return
        rejection = msgspec.structs.replace(rejection, plugin=plugin)
        known = self.refusals.setdefault(job.uid, [])
        if rejection not in known:
            known.append(rejection)

    def note_attempt(self, job: Job, attempt: Attempt) -> None:
        """Record an undone attempt to place the job. Of several attempts, the one that placed the
        most tasks is kept.
        """
        known = self.attempts.get(job.uid)
        if known is None or attempt.placed > known.placed:
            self.attempts[job.uid] = attempt

    def note_choice(self, ask: Ask, node: int, candidates: Flags) -> None:
        """Record why the first task of the asker's podgroup goes to this node.

        Only the first podgroups of a cycle get a record. The record answers users who ask why.
        """
        if len(self.choices) < CHOICES:
            self.choices[ask.job.uid] = self.placer.choice(ask, node, candidates)

    def note_chooser(self, job: Job, node: int, among: int, chooser: str) -> None:
        """Record that a plugin chose this node itself for the job's first task."""
        if len(self.choices) < CHOICES:
            name = self.cluster.node_names[node]
            self.choices[job.uid] = Choice(node=name, among=among, scores={}, chooser=chooser)

    # -- questions about jobs -----------------------------------------------------------------

    def job_valid(self, job: Job) -> bool:
        return not self._refuse_by("job_valid", job)

    def held_back(self, job: Job) -> bool:
        """Whether the job must not be placed now, even if there is room. Evictions for the job are
        allowed.
        """
        return self._refuse_by("held_back", job)

    def _refuse_by(self, hook: str, job: Job) -> bool:
        """Return whether a plugin refuses the job by this hook, and record the first refusal."""
        for plugin, fn in self.hooks.named(hook):
            refusal = fn(job)
            if refusal is not None:
                self.refuse(job, refusal, plugin)
                return True
        return False

    def job_ready(self, job: Job) -> bool:
        return self.hooks.every("job_ready", job)

    def subjob_ready(self, job: Job, sub: SubJob) -> bool:
        if not job.has_subgroups:
            return self.job_ready(job)
        return self.hooks.every("subjob_ready", sub)

    def subjob_pipelined(self, job: Job, sub: SubJob) -> bool:
        if not job.has_subgroups:
            return self.job_pipelined(job)
        return self.hooks.vote("subjob_pipelined", sub)

    def shortfall(self, job: Job) -> int:
        """Return the least number of further tasks that must be placed before the job can be ready.
        It is at least 1.
        """
        if job.has_subgroups:
            return 1
        if len(self.hooks.all("job_shortfall")) < len(self.hooks.all("job_ready")):
            return 1
        return max(1, self.hooks.largest("job_shortfall", job))

    def job_pipelined(self, job: Job) -> bool:
        return self.hooks.vote("job_pipelined", job)

    def job_starving(self, job: Job) -> bool:
        return self.hooks.first_tier_all("job_starving", job)

    def entitled(self, job: Job) -> bool:
        """Whether a plugin gives the job its places as a whole (see `places`)."""
        return self.hooks.some("entitled", job)

    # -- questions about queues ---------------------------------------------------------------

    def overused(self, queue: int) -> bool:
        return self.hooks.some("overused", queue)

    def room(self, job: Job, eq_class: EquivalenceClass, limit: int) -> int:
        """Return how many tasks of the class the job's queue still admits, at most `limit`."""
        limit = self.queue_room(job.queue, eq_class, limit)
        return self.hooks.smallest("room", job.queue, job, eq_class, limit=limit)

    def queue_room(self, queue: int, eq_class: EquivalenceClass, limit: int) -> int:
        """Return how many tasks of the class, of any job, the queue still admits, at most `limit`.

        The number never grows while work is placed in any queue.
        """
        return self.hooks.smallest("queue_room", queue, eq_class, limit=limit)

    def shortages(
        self, job: Job, eq_class: EquivalenceClass, count: int = 1
    ) -> tuple[Rejection, ...]:
        """Return rejections that say how much quotas lack for `count` more tasks of the class."""
        found = [
            msgspec.structs.replace(r, plugin=plugin)
            for plugin, fn in self.hooks.named("shortage")
            for r in fn(job.queue, job, eq_class, count)
        ]
        return tuple(found) or (Rejection(reason="queue-full"),)

    def allocatable(self, t: int) -> bool:
        return self.room(self.job(t), self.cluster.eq_class[t], 1) >= 1

    # -- orders -------------------------------------------------------------------------------

    def job(self, t: int) -> Job:
        return self.cluster.jobs[self.cluster.job_of[t]]

    def job_key(self, job: Job) -> tuple[Any, ...]:
        created = job.spec.created
        return (*self.hooks.key("job_order", job), _age(created), job.uid)

    def first_jobs(self, jobs: Sequence[Job], most: int) -> list[Job]:
        """Return the first `most` of these jobs, in the order of `job_key`."""
        columns = [map(fn, jobs) for fn in self.hooks.all("job_order")]
        ages = [_age(job.spec.created) for job in jobs]
        uids = [job.uid for job in jobs]
        # no two uids are equal, so jobs themselves are never compared
        rows = zip(*columns, ages, uids, jobs, strict=True)
        return [row[-1] for row in heapq.nsmallest(most, rows)]

    def subjob_key(self, sub: SubJob) -> tuple[Any, ...]:
        return (*self.hooks.key("subjob_order", sub), sub.match_index, sub.uid)

    def compare_queues(self, left: int, right: int) -> int:
        answer = self.hooks.compare("queue_order", left, right)
        if answer:
            return answer
        queues = self.cluster.queues
        a = (_age(queues[left].created), queues[left].name)
        b = (_age(queues[right].created), queues[right].name)
        return (a > b) - (a < b)

    def sort_tasks(self, tasks: Iterable[int]) -> list[int]:
        """Return tasks in the order in which they are tried: by the plugins' keys, then by the
        number in their names (`_pod_index`), by age and by name.
        """
        listed = list(tasks)
        if len(listed) < 2:
            return listed
        specs = self.cluster.tasks
        columns = [[fn(t) for t in listed] for fn in self.hooks.all("task_order")]
        indexes = [self._pod_index(t) for t in listed]
        if None not in indexes:
            columns.append(indexes)
        columns.append([_age(specs[t].created) for t in listed])
        telling = [c for c in columns if c.count(c[0]) < len(c)]
        if not telling:
            return sorted(listed)
        return [row[-1] for row in sorted(zip(*telling, listed, strict=True))]

    def _pod_index(self, t: int) -> int | None:
        """Return the number after the last dash of a task's name; None unless the name has at least
        three parts and the last one is a number.
        """
        known = self._tie_breaks.get(t)
        if known is None:
            front, _, last = self.cluster.tasks[t].name.rpartition("-")
            index = count(last) if "-" in front else None
            known = self._tie_breaks[t] = -1 if index is None else index
        return known if known >= 0 else None

    def sort_victims(self, victims: Sequence[int], preemptor: int) -> list[int]:
        """Return victims in the order in which they are evicted.

        Tasks without a job come first. The others are ordered by the plugins' keys, then by queue.
        Jobs and tasks that would be placed last are evicted first.
        """
        cluster = self.cluster
        rank = {t: i for i, t in enumerate(self.sort_tasks(victims))}
        jobs = [cluster.jobs[i] for i in {cluster.job_of[t] for t in victims} if i >= 0]
        keys = {job.index: self.job_key(job) for job in jobs}
        said = {job.index: self.hooks.key("victim_order", job) for job in jobs}
        mine = cluster.job_of[preemptor]
        for_queue = cluster.jobs[mine].queue if mine >= 0 else -1

        def compare(a: int, b: int) -> int:
            ja, jb = cluster.job_of[a], cluster.job_of[b]
            if ja == jb:
                return rank[b] - rank[a]
            if ja < 0 or jb < 0:
                return -1 if ja < 0 else 1
            if said[ja] != said[jb]:
                return -1 if said[ja] < said[jb] else 1
            qa, qb = cluster.jobs[ja].queue, cluster.jobs[jb].queue
            if qa != qb and for_queue >= 0:
                return self.hooks.compare(
                    "victim_queue_order", qa, qb, for_queue
                ) or -self.compare_queues(qa, qb)
            return (keys[ja] < keys[jb]) - (keys[ja] > keys[jb])

        return sorted(victims, key=functools.cmp_to_key(compare))

    # -- what changed ---------------------------------------------------------------------------

    def changed(
        self,
        job: Job,
        eq_class: EquivalenceClass,
        tasks: Sequence[int],
        nodes: Sequence[int],
        sign: int,
    ) -> None:
        """Notify the plugins of a `Change`."""
        change = Change(job, eq_class, tasks, nodes, sign)
        for fn in self.hooks.all("changed"):
            fn(change)

    def pending(self, job: Job) -> list[int]:
        return [t for t in job.tasks if self.cluster.status[t] == j.PENDING]


def _age(created: float | None) -> float:
    """Return the creation time as a sort key. A job or task without a creation time counts as the
    oldest.
    """
    return float("-inf") if created is None else created
