"""Virtual time for the studied policies: everything is decided again at each arrival and finish.
Equal inputs give equal results. Machines only have GPUs. Jobs that request a part of a GPU, or that
may run with fewer than all tasks, are refused.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from phalanx.scheduler.cycle.cluster import Cluster
from phalanx.scheduler.cycle.specs import NodeSpec, QueueSpec, Snapshot
from phalanx_research.timed.fragmentation import Fragmentation, typical
from phalanx_research.timed.loop import Clock, Progress
from phalanx_research.timed.policies import classic
from phalanx_research.timed.progress import Work
from phalanx_research.timed.recorder import Recorder
from phalanx_research.timed.result import Result
from phalanx_research.timed.studied.catalogue import studied
from phalanx_research.timed.studied.live import Decision, Live
from phalanx_research.timed.summary import summarise
from phalanx_research.timed.workload import GPU, Job, WorkloadError, check, requested

TOGETHER = 1e-9
"""The relative difference up to which finishes count as one event, as in Muri's simulator.
Otherwise equal jobs that ran together would have an additional overhead because of rounding.
"""
TOGETHER_S = 1e-4
"""The seconds between a finish and an arrival up to which they count as one event."""


def simulate_studied(
    policy: str,
    jobs: Sequence[Job],
    nodes: Sequence[NodeSpec],
    *,
    queues: Sequence[QueueSpec] = (QueueSpec(name="default"),),
    name: str = "",
    clock: Clock | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> Result:
    """Run the jobs under a policy of STUDIED until all jobs that can finish have finished.

    Where GPUs are shared, `utilisation_pct` may exceed 100: it counts the time that the work would
    have taken alone. `clock` and `progress` are those of `phalanx_research.timed.simulate`. Raises
    KeyError for a name that is not in STUDIED, and WorkloadError for a workload that cannot be
    simulated.
    """
    check(jobs, nodes, queues)
    for job in jobs:
        _check(job)
    return _Run(policy, jobs, nodes, queues, clock).run(name, progress)


def _check(job: Job) -> None:
    if job.amount(GPU) < 1 or any(requested(part.shape, GPU) % 1 for part in job.parts):
        raise WorkloadError(
            f"job {job.name} requests {job.amount(GPU):g} GPUs; this policy needs jobs of one or "
            "more whole GPUs"
        )
    if job.least < job.size:
        raise WorkloadError(
            f"job {job.name} may start with {job.least} of its {job.size} tasks; under this policy "
            "a job runs with all tasks or not at all"
        )


class _Run:
    def __init__(
        self,
        policy: str,
        jobs: Sequence[Job],
        nodes: Sequence[NodeSpec],
        queues: Sequence[QueueSpec],
        clock: Clock | None,
    ) -> None:
        self._works = [Work(job) for job in sorted(jobs, key=lambda job: job.submit_s)]
        self._arrived = 0
        self._live: list[Live] = []
        self._queues = queues
        self._clock = clock
        self._cluster = Cluster(
            Snapshot(config=classic("fifo"), nodes=tuple(nodes), queues=tuple(queues))
        )
        self._column = self._cluster.dims.index[GPU]
        gpus = [round(dict(node.capacity).get(GPU, 0.0)) for node in self._cluster.nodes]
        self._policy = studied(policy, gpus, jobs)
        fragmentation = Fragmentation(self._cluster.dims, GPU, typical(jobs))
        self._recorder = Recorder(self._cluster, GPU, fragmentation, 0.0)
        self._events = self._decisions = 0
        self._deciding_s = 0.0
        self._held: dict[str, float] = {}
        """The GPU-seconds of each queue. A shared GPU counts fully for each job on it."""

    def run(self, name: str, progress: Callable[[Progress], None] | None) -> Result:
        now = 0.0
        while True:
            arrival = self._next_arrival()
            finish, ending = self._next_finish()
            if arrival == finish == math.inf:
                break
            if math.isclose(arrival, finish, rel_tol=TOGETHER, abs_tol=TOGETHER_S):
                now = arrival
            else:
                now = min(arrival, finish)
                ending = ending if finish < arrival else []
            self._happen(ending, now)
            if progress is not None:
                progress(self._told(now))
        return summarise(
            name=name,
            works=self._works,
            queues=self._queues,
            recorder=self._recorder,
            resource=GPU,
            useful=sum(w.job.work_s * w.job.amount(GPU) for w in self._works if w.finish),
            held=self._held,
            end_s=now,
            cycles=self._events,
            decisions=self._decisions,
            deciding_s=None if self._clock is None else self._deciding_s,
        )

    def _next_arrival(self) -> float:
        waits = self._arrived < len(self._works)
        return self._works[self._arrived].job.submit_s if waits else math.inf

    def _next_finish(self) -> tuple[float, list[Live]]:
        """Return the time of the first finish, and the jobs that finish at that time.

        If several jobs finish together, the first job in order sets the time.
        """
        running = [one for one in self._live if one.terms is not None]
        first = min((one.due for one in running), default=math.inf)
        ending = [one for one in running if math.isclose(one.due, first, rel_tol=TOGETHER)]
        return (ending[0].due if ending else math.inf), ending

    def _happen(self, ending: Sequence[Live], now: float) -> None:
        self._recorder.pass_time(now)
        for one in self._live:
            if one.terms is not None:
                queue = one.job.queue
                held = one.gpus * (now - one.since)
                self._held[queue] = self._held.get(queue, 0.0) + held
        for one in ending:
            one.work.finish = now
            self._live.remove(one)
            self._policy.leave(one)
        while self._next_arrival() <= now:
            self._live.append(Live(self._works[self._arrived], self._arrived))
            self._arrived += 1
        for one in self._live:
            one.pass_time(now)
        clock = self._clock or (lambda: 0.0)
        start = clock()
        decision = self._policy.decide(self._live, now)
        self._deciding_s += clock() - start
        self._events += 1
        self._carry_out(decision, now)

    def _carry_out(self, decision: Decision, now: float) -> None:
        for one in self._live:
            terms = decision.terms.get(one)
            if (terms is None) != (one.terms is None):
                self._decisions += 1
            if terms is None and one.terms is not None:
                one.work.preemptions += 1
            if terms is not None and one.work.start is None:
                one.work.start = now
            one.terms = terms
        self._recorder.take(sum(decision.held) - self._recorder.allocated)
        column, unit = self._column, self._cluster.dims.scale[self._column]
        capacity = self._cluster.capacity[:, column]
        self._cluster.idle[:, column] = capacity - [round(n * unit) for n in decision.held]
        running = len(decision.terms)
        self._recorder.sample(self._cluster, now, running, len(self._live) - running)

    def _told(self, now: float) -> Progress:
        return Progress(
            now_s=now,
            submitted=self._arrived,
            finished=self._arrived - len(self._live),
            jobs=len(self._works),
        )
