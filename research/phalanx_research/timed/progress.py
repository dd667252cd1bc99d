"""The progress of jobs in virtual time: when each task began its present run, and how much work it
has left.
"""

from __future__ import annotations

from collections.abc import Sequence

from phalanx.model.ids import GangId, GroupId
from phalanx.scheduler.cycle.specs import Shape
from phalanx_research.timed.workload import Job

LONGEST = 20
"""The number of digits to which numbers in names are padded, for sorting."""


class Run:
    """Tasks of one job that started together and have the same amount of work left. `left`: the
    seconds of work that each task has left at `since`. `unpaid`: the seconds of overhead that must
    pass before the work continues. `over`: whether the run has finished or was stopped.
    """

    __slots__ = ("left", "over", "since", "tasks", "unpaid", "version", "work")

    def __init__(self, work: Work, tasks: list[int], left: float, now: float) -> None:
        self.work = work
        self.tasks = tasks
        self.left = left
        self.since = now
        self.unpaid = 0.0
        self.version = 0
        """The number of changes of the finish time. A finish in the heap with a smaller number is
        outdated.
        """
        self.over = False

    @property
    def finish(self) -> float:
        return self.since + self.unpaid + self.left

    def work_by(self, now: float) -> float:
        """Return the seconds of work done since `since`."""
        return max(0.0, now - self.since - self.unpaid)

    def pay_and_go_on(self, now: float, overhead_s: float) -> None:
        """Subtract the work done since `since` from the work left, and continue from now on.
        `overhead_s`: the seconds of that time that were overhead and not work.
        """
        self.left -= max(now - self.since - overhead_s, 0.0)
        self.since = now
        self.version += 1


class Work:
    """One job from its submission to its end."""

    __slots__ = (
        "called", "done", "finish", "gang_id", "job", "left", "preemptions", "ran", "running",
        "runs", "shapes", "since", "size", "start", "turn", "uid",
    )  # fmt: skip

    def __init__(self, job: Job) -> None:
        self.job = job
        self.called = _called(job.name)
        """The name of the job's gang."""
        self.uid = f"default/{self.called}"
        self.gang_id = GangId(GroupId(job.name.encode()))
        """The id of the job's gang."""
        self.size = job.size
        self.shapes: Sequence[Shape] = ()
        """The request of each task. It stays the same from the job's submission to its end."""
        self.left: dict[int, float] = {}
        """The seconds of work left for each stopped task. Other waiting tasks have all their work
        left.
        """
        self.runs: list[Run] = []
        self.running = 0
        self.done = 0
        self.start: float | None = None
        self.finish: float | None = None
        self.since: float | None = None
        """The time since which the job has been running; None while the job does not run."""
        self.ran = 0.0
        """Seconds for which the job ran before `since`."""
        self.preemptions = 0
        self.turn: int | None = None
        """The job's place in the order of `turns`, if the policy has such an order."""

    def ran_by(self, now: float) -> float:
        """Return the total number of seconds for which the job has run until now."""
        return self.ran + (0.0 if self.since is None else now - self.since)

    @property
    def is_running(self) -> bool:
        """Whether enough tasks run to reach the minimum; ended tasks count, too."""
        return self.running > 0 and self.running + self.done >= self.job.least

    def begin(self, tasks: list[int], now: float) -> list[Run]:
        """Start these tasks. Returns one run for each different amount of work left."""
        made: dict[float, Run] = {}
        for task in tasks:
            left = self.left.pop(task, self.job.work_s)
            run = made.get(left)
            if run is None:
                made[left] = Run(self, [task], left, now)
            else:
                run.tasks.append(task)
        if not self.running:
            self.since = now
        if self.start is None:
            self.start = now
        self.running += len(tasks)
        self.runs.extend(made.values())
        return list(made.values())

    def complete(self, run: Run, now: float) -> None:
        """Complete a run's tasks. With its last task, the job is complete."""
        self._close(run)
        self.done += len(run.tasks)
        self._lose(len(run.tasks), now)
        if self.done == self.size:
            self.finish = now
            self.shapes = ()

    def stop(self, tasks: set[int], now: float, *, keep: bool) -> list[Run]:
        """Stop these running tasks. With `keep`, work that they have done counts. Returns the runs
        that continue with fewer tasks.
        """
        smaller = []
        for run in list(self.runs):
            gone = [task for task in run.tasks if task in tasks]
            if not gone:
                continue
            left = run.left - run.work_by(now) if keep else run.left
            for task in gone:
                self.left[task] = max(left, 0.0)
            run.tasks = [task for task in run.tasks if task not in tasks]
            if run.tasks:
                smaller.append(run)
            else:
                self._close(run)
            self._lose(len(gone), now)
        return smaller

    def longest(self) -> float:
        """Return the largest amount of work that any task had left at the start of its
        present run.
        """
        most = [run.left for run in self.runs]
        waiting = self.size - self.running - self.done
        if waiting:
            unstarted = waiting > len(self.left)
            most.append(self.job.work_s if unstarted else max(self.left.values()))
        return max(most, default=0.0)

    def _close(self, run: Run) -> None:
        run.over = True
        self.runs.remove(run)

    def _lose(self, count: int, now: float) -> None:
        self.running -= count
        if not self.running and self.since is not None:
            self.ran += now - self.since
            self.since = None


def _called(name: str) -> str:
    """Return a name in which numbers are padded to equal length. The scheduler orders equal jobs by
    the text of their names, and 9 must come before 10.
    """
    return name.rjust(LONGEST) if name.isdecimal() else name
