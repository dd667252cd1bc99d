"""Virtual time: handles events in order, and runs a cycle of the head's scheduler whenever
something has changed. Arrivals and finishes at one moment come before the cycle at that moment;
ties are resolved by the order of arrival. No code here reads a clock or draws random numbers, so
equal inputs give equal results.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from phalanx.scheduler.cycle.config import Configuration
from phalanx.scheduler.cycle.specs import NodeSpec, QueueSpec
from phalanx.scheduler.forecast.planner import lent
from phalanx_research.timed.fragmentation import Fragmentation, typical
from phalanx_research.timed.progress import Run, Work
from phalanx_research.timed.recorder import Recorder
from phalanx_research.timed.result import Result
from phalanx_research.timed.scheduler import Changes, SimulatedScheduler
from phalanx_research.timed.summary import summarise
from phalanx_research.timed.turns import turns_of
from phalanx_research.timed.workload import (
    GPU,
    NOTHING_KEPT,
    Job,
    KeptApart,
    Rules,
    check,
    requested,
)
from phalanx_research.virtual_time import VirtualClock, VirtualTime

Clock = Callable[[], float]


class Progress(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The progress of a run: virtual seconds, finished jobs, and all jobs."""

    now_s: float
    submitted: int
    finished: int
    jobs: int


def simulate(
    jobs: Sequence[Job],
    nodes: Sequence[NodeSpec],
    *,
    config: Configuration,
    queues: Sequence[QueueSpec] = (QueueSpec(name="default"),),
    rules: Rules = Rules(),  # noqa: B008 -- a frozen value
    name: str = "",
    until_s: float = math.inf,
    clock: Clock | None = None,
    shells: Mapping[str, Any] | None = None,
    progress: Callable[[Progress], None] | None = None,
    kept: KeptApart = NOTHING_KEPT,
) -> Result:
    """Run the jobs on the machines until all jobs that can finish have finished, or until
    `until_s`.

    `clock`, in seconds, measures decisions per second. `shells` provides plugins with the
    connections that they need; a planner is always provided. `progress` is called after every
    cycle. Raises WorkloadError for a workload that cannot be simulated.
    """
    check(jobs, nodes, queues)
    return _Simulation(
        jobs,
        nodes,
        config=config,
        queues=queues,
        rules=rules,
        clock=clock,
        shells=shells,
        kept=kept,
    ).run(name, until_s, progress)


class _Simulation:
    def __init__(
        self,
        jobs: Sequence[Job],
        nodes: Sequence[NodeSpec],
        *,
        config: Configuration,
        queues: Sequence[QueueSpec],
        rules: Rules,
        clock: Clock | None,
        shells: Mapping[str, Any] | None,
        kept: KeptApart,
    ) -> None:
        self._kept = kept
        self._rules = rules
        self._clock = clock or (lambda: 0.0)
        self._timed = clock is not None
        self._queues = queues
        self._arrivals = [Work(job) for job in sorted(jobs, key=lambda job: job.submit_s)]
        self._arrived = 0
        self._live: dict[str, Work] = {}
        """The submitted jobs that have not finished, in order of arrival."""
        self._finishes: list[tuple[float, int, int, Run]] = []
        self._sequence = 0
        self._time = VirtualTime()
        lent_to_plugins = {**lent(), **(shells or {})}
        self._scheduler = SimulatedScheduler(
            nodes, queues, config, rules, VirtualClock(self._time), lent_to_plugins, kept
        )
        self._turns = turns_of(config)
        cluster = self._scheduler.cluster()
        gpus = cluster.dims.index.get(GPU)
        has_gpus = gpus is not None and bool(cluster.capacity[:, gpus].any())
        self._resource = GPU if has_gpus else "cpu"
        fragmentation = Fragmentation(cluster.dims, self._resource, typical(jobs))
        self._recorder = Recorder(cluster, self._resource, fragmentation, rules.sample_s)
        self._running = 0
        self._timer = math.inf
        self._cycles = self._decisions = 0
        self._deciding_s = 0.0
        self._useful = 0.0
        self._held: dict[str, float] = {}
        """The resource-seconds that each queue has held."""

    def run(self, name: str, until_s: float, progress: Callable[[Progress], None] | None) -> Result:
        now = 0.0
        while True:
            event, cycle = self._next_event(), self._scheduler.wake_at
            upcoming = min(event, cycle)
            if upcoming == math.inf or upcoming > until_s:
                break
            now = self._time.now = upcoming
            self._recorder.pass_time(now)
            if event <= cycle:
                self._happen(now)
                continue
            self._cycle(now)
            if progress is not None:
                finished = self._arrived - len(self._live)
                progress(
                    Progress(
                        now_s=now,
                        submitted=self._arrived,
                        finished=finished,
                        jobs=len(self._arrivals),
                    )
                )
        end = now if until_s == math.inf else max(now, min(until_s, self._next_event()))
        self._recorder.pass_time(end)
        self._sample(end, last=True)
        return self._result(name, end)

    # -- the next event -------------------------------------------------------------------------

    def _next_event(self) -> float:
        heap = self._finishes
        while heap and (heap[0][3].over or heap[0][2] != heap[0][3].version):
            heapq.heappop(heap)
        finish = heap[0][0] if heap else math.inf
        waits = self._arrived < len(self._arrivals)
        arrival = self._arrivals[self._arrived].job.submit_s if waits else math.inf
        return min(finish, arrival, self._timer)

    def _happen(self, now: float) -> None:
        new = []
        while (
            self._arrived < len(self._arrivals)
            and self._arrivals[self._arrived].job.submit_s <= now
        ):
            new.append(self._arrivals[self._arrived])
            self._arrived += 1
        while self._finishes and self._finishes[0][0] <= now:
            _, _, version, run = heapq.heappop(self._finishes)
            if not run.over and run.version == version:
                self._finish(run, now)
        for work in new:
            self._live[work.uid] = work
            work.shapes = [part.shape for part in work.job.parts for _ in range(part.count)]
        self._scheduler.submit(new)
        if self._turns is not None:
            self._turns.arrive(new)
        self._timer = math.inf
        self._scheduler.request_cycle()

    def _finish(self, run: Run, now: float) -> None:
        work = run.work
        was_running = work.is_running
        work.complete(run, now)
        self._account(work, run.tasks, -1, now)
        self._useful += self._amount(work, run.tasks) * work.job.work_s
        self._running -= was_running and not work.is_running
        self._scheduler.end(work, run.tasks)
        if work.finish is not None:
            del self._live[work.uid]
            if self._turns is not None:
                self._turns.leave(work)

    # -- a cycle --------------------------------------------------------------------------------

    def _cycle(self, now: float) -> None:
        scheduler, rules = self._scheduler, self._rules
        if rules.overhead == "event":
            for work in self._live.values():
                for run in work.runs:
                    run.pay_and_go_on(now, work.job.overhead_s)
                if work.runs:
                    scheduler.amend(work)
        running = [work for work in self._live.values() if work.running]
        if self._turns is not None:
            for work in self._turns.take(running, now):
                scheduler.amend(work)
        if rules.anew:
            scheduler.take_all_back(running)
        start = self._clock()
        changes = scheduler.round()
        self._deciding_s += self._clock() - start
        self._cycles += 1
        self._decisions += changes.decisions
        started = self._carry_out(changes, now)
        self._announce(started, now)
        self._set_timer(now)
        self._sample(now)

    def _carry_out(self, changes: Changes, now: float) -> list[Run]:
        """Stop tasks that lost their places and got no others, and start tasks that did not run."""
        nobody: set[int] = set()
        for work, lost in changes.lost.items():
            gone = lost - changes.arrived.get(work, nobody)
            if gone:
                self._stop(work, sorted(gone), now)
        started: list[Run] = []
        for work, arrived in changes.arrived.items():
            fresh = sorted(arrived - changes.lost.get(work, nobody))
            if not fresh:
                continue
            before = work.is_running
            runs = work.begin(fresh, now)
            assert work.is_running, f"job {work.job.name} started with too few tasks"
            self._running += not before
            if self._rules.overhead == "start":
                for run in runs:
                    run.unpaid = work.job.overhead_s
            self._account(work, fresh, 1, now)
            started += runs
        return started

    def _stop(self, work: Work, tasks: Sequence[int], now: float) -> None:
        before = work.is_running
        work.stop(set(tasks), now, keep=self._rules.preempted == "checkpoint")
        work.preemptions += 1
        self._running -= before and not work.is_running
        self._account(work, tasks, -1, now)
        self._scheduler.amend(work)

    def _announce(self, started: Sequence[Run], now: float) -> None:
        """Put finish times into the heap: those of new runs or, if each event costs time, of all
        runs.
        """
        runs = started
        if self._rules.overhead == "event":
            runs = [run for work in self._live.values() for run in work.runs]
        for run in runs:
            self._sequence += 1
            heapq.heappush(self._finishes, (run.finish, self._sequence, run.version, run))

    def _set_timer(self, now: float) -> None:
        """Set the time at which the next cycle runs even without an event."""
        self._timer = math.inf
        if self._turns is not None:
            running = [work for work in self._live.values() if work.running]
            self._turns.keep(running)
            self._timer = self._turns.next_fall(running, now)
        if self._rules.tick_s is not None and self._running < len(self._live):
            self._timer = min(self._timer, now + self._rules.tick_s)
        if self._running < len(self._live):
            self._timer = min(self._timer, self._kept.next_change(now))

    # -- accounts -------------------------------------------------------------------------------

    def _amount(self, work: Work, tasks: Sequence[int]) -> float:
        """Return the amount of the measured resource that these tasks hold."""
        parts = work.job.parts
        if len(parts) == 1:
            return requested(parts[0].shape, self._resource) * len(tasks)
        sizes = [requested(p.shape, self._resource) for p in parts for _ in range(p.count)]
        return sum(sizes[k] for k in tasks)

    def _account(self, work: Work, tasks: Sequence[int], sign: int, now: float) -> None:
        amount = sign * self._amount(work, tasks)
        self._recorder.take(amount)
        queue = work.job.queue
        self._held[queue] = self._held.get(queue, 0.0) - amount * now

    def _sample(self, now: float, *, last: bool = False) -> None:
        cluster = self._scheduler.cluster()
        assert (cluster.idle >= 0).all(), "a node holds more than it has"
        waiting = len(self._live) - self._running
        self._recorder.sample(cluster, now, self._running, waiting, last=last)

    def _result(self, name: str, end: float) -> Result:
        for work in self._live.values():
            for run in work.runs:
                amount = self._amount(work, run.tasks)
                work_s = work.job.work_s - run.left + run.work_by(end)
                self._useful += amount * work_s
                self._held[work.job.queue] += amount * end
        return summarise(
            name=name,
            works=self._arrivals,
            queues=self._queues,
            recorder=self._recorder,
            resource=self._resource,
            useful=self._useful,
            held=self._held,
            end_s=end,
            cycles=self._cycles,
            decisions=self._decisions,
            deciding_s=self._deciding_s if self._timed else None,
        )
