"""A day's work of a lab, drawn from a seed: jobs of all kinds, reservations, and maintenance."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator

import msgspec

from phalanx.model.jobs.arrays import ArraySpec
from phalanx.model.jobs.dependencies import (
    AFTER_ANY,
    AFTER_CORR,
    AFTER_OK,
    SINGLETON,
    Dependencies,
    Dependency,
)
from phalanx.model.jobs.spec import JobSpec, Process, TaskGroup, Template
from phalanx.model.jobs.timing import Moment, Requeue, Timing, WarningSignal
from phalanx.model.reservations import Reservation
from phalanx_research.lab.people import (
    DESKS,
    GPUS_PER_NODE,
    HOUR_S,
    Person,
    Size,
    machines,
    moment,
    people,
)

COURSE, PATCH = "course", "patch"
LICENSE, LICENSES = "solver", 6
_SPREAD = 0.35
"""The standard deviation of the logarithms of a script's run times."""
_PATIENCE_S = HOUR_S
"""Seconds for which an interactive user waits before cancelling the job."""
_QUARTER_S = 900.0


class Submission(msgspec.Struct, frozen=True, kw_only=True):
    """A job, the time of its submission, and the work of its members. `runs_s` has the run time of
    the job in seconds, or that of each array task.
    """

    at_s: float
    kind: str
    spec: JobSpec
    runs_s: tuple[float, ...]
    keeps: bool = False
    """Whether work done before an interruption counts."""
    patience_s: float | None = None


def draw_day(size: Size, seed: int) -> list[Submission]:
    """Return all submissions in order of time. Equal arguments give equal days."""
    draw = random.Random(f"lab {seed}")
    drawing = _Drawing(size, draw, people(size, draw))
    found = [one for kind in drawing.kinds() for one in kind]
    return sorted(found, key=lambda one: (one.at_s, one.spec.name))


def reservations(size: Size) -> list[Reservation]:
    """Return the reservations, which exist from the beginning of the day: for a course in the
    afternoon, and for machines that are patched at noon.
    """
    whole = machines(size)
    length_s = size.hours / 12 * HOUR_S
    gpus = float(max(1, size.gpus // 14))
    patched = tuple(f"node{i:03d}" for i in range(0, len(whole), max(2, len(whole) // 4)))
    noon, afternoon = size.hours / 2 * HOUR_S, size.hours * 14 / 24 * HOUR_S
    return [
        Reservation(
            name=COURSE,
            start=Moment(after_s=afternoon),
            length_s=length_s,
            amounts=(("GPU", gpus),),
        ),
        Reservation(
            name=PATCH,
            start=Moment(after_s=noon),
            length_s=length_s / 2,
            nodes=patched,
            maintenance=True,
        ),
    ]


class _Drawing:
    def __init__(self, size: Size, draw: random.Random, crowd: list[Person]) -> None:
        self._size = size
        self._draw = draw
        self._crowd = crowd
        self._count = 0
        self._largest = max(1, size.gpus // GPUS_PER_NODE // 2)
        """The size of the largest gang, in machines."""
        self._part = min(1.0, size.gpus / 112)
        """The factor by which the arrays of a small lab are shortened."""

    def kinds(self) -> Iterator[Iterator[Submission]]:
        """Yield the kinds of work, each with its number per day in a lab with 224 GPUs."""
        count, draw = self._size.count, self._draw
        for _ in range(count(230)):
            yield self._desk()
        for _ in range(count(190)):
            yield self._alone("single", draw.choice((1, 1, 1, 2, 2, 4, 8)))
        for _ in range(count(24)):
            yield self._gang()
        for _ in range(count(26)):
            yield self._sweep()
        for _ in range(count(14)):
            yield self._grid()
        for _ in range(count(16)):
            yield self._chain()
        for _ in range(count(5)):
            yield self._urgent()
        for _ in range(count(12)):
            yield self._spare()
        for _ in range(count(24)):
            yield self._pupil()
        for _ in range(count(30)):
            yield self._licensed()
        yield self._backups()

    # ---- kinds -------------------------------------------------------------------------------

    def _desk(self) -> Iterator[Submission]:
        """Submit interactive work with a GPU. The user cancels the job after a long wait."""
        who, at_s = self._who(), self._when(8, 20)
        ran_s = self._around(2_700.0, 0.8)
        limit_s = self._draw.choice((1.0, 2.0, 2.0, 4.0)) * HOUR_S
        spec = self._spec(who, "desk", {"GPU": 1.0, "CPU": 8.0, "memory": 64e9}, "bash")
        spec = msgspec.structs.replace(spec, queue=DESKS, timing=Timing(limit_s=limit_s))
        yield Submission(at_s=at_s, kind="desk", spec=spec, runs_s=(ran_s,), patience_s=_PATIENCE_S)

    def _alone(self, kind: str, gpus: int) -> Iterator[Submission]:
        """Submit training on one machine. One user in four sets no time limit."""
        who, at_s = self._who(), self._when()
        script, median_s = self._draw.choice(who.scripts)
        spec = self._spec(who, kind, _share(gpus), script)
        if self._draw.random() < 0.75:
            spec = msgspec.structs.replace(spec, timing=self._limit(median_s))
        yield Submission(at_s=at_s, kind=kind, spec=spec, runs_s=(self._around(median_s),))

    def _gang(self) -> Iterator[Submission]:
        who, at_s = self._who(), self._when()
        script, median_s = self._draw.choice(who.scripts)
        nodes = min(self._draw.choice((2, 2, 2, 4, 4, 8)), self._largest)
        spec = self._spec(who, "gang", _share(GPUS_PER_NODE), script, members=nodes)
        spec = msgspec.structs.replace(spec, timing=self._limit(1.5 * median_s))
        yield Submission(at_s=at_s, kind="gang", spec=spec, runs_s=(self._around(1.5 * median_s),))

    def _sweep(self) -> Iterator[Submission]:
        """Submit an array of trainings, and an array that evaluates each result once it exists."""
        who, at_s = self._who(), self._when()
        count, most = self._several(20, 120), self._draw.choice((8, 16, 32))
        median_s = self._draw.uniform(600.0, 2_400.0)
        spec = self._array(who, "sweep", _share(1), count, most, median_s)
        runs = tuple(self._around(median_s) for _ in range(count))
        yield Submission(at_s=at_s, kind="sweep", spec=spec, runs_s=runs)
        judge = self._array(who, "judge", {"CPU": 2.0, "memory": 4e9}, count, None, 120.0)
        judge = msgspec.structs.replace(judge, after=_after(AFTER_CORR, spec))
        runs = tuple(self._around(120.0) for _ in range(count))
        yield Submission(at_s=at_s + 1.0, kind="judge", spec=judge, runs_s=runs)

    def _grid(self) -> Iterator[Submission]:
        who, at_s = self._who(), self._when()
        count = self._several(100, 600)
        spec = self._array(who, "grid", {"CPU": 2.0, "memory": 4e9}, count, None, 200.0)
        runs = tuple(self._around(200.0) for _ in range(count))
        yield Submission(at_s=at_s, kind="grid", spec=spec, runs_s=runs)

    def _chain(self) -> Iterator[Submission]:
        """Submit data preparation, then training, then a report that also runs if the training
        fails.
        """
        who, at_s = self._who(), self._when(0, 18)
        data = self._spec(who, "data", {"CPU": 16.0, "memory": 64e9}, "data.py")
        data = msgspec.structs.replace(data, timing=self._limit(900.0))
        script, median_s = self._draw.choice(who.scripts)
        train = self._spec(who, "train", _share(4), script)
        train = msgspec.structs.replace(
            train, timing=self._limit(median_s), after=_after(AFTER_OK, data)
        )
        report = self._spec(who, "report", {"CPU": 1.0, "memory": 4e9}, "report.py")
        report = msgspec.structs.replace(report, after=_after(AFTER_ANY, train))
        for spec, run_s in ((data, 900.0), (train, median_s), (report, 60.0)):
            at_s += 1.0
            yield Submission(at_s=at_s, kind="chain", spec=spec, runs_s=(self._around(run_s),))

    def _urgent(self) -> Iterator[Submission]:
        """Submit urgent work, which starts before its team's other work and preempts spare work."""
        who, at_s = self._who(), self._when(9, 20)
        nodes = min(2, self._largest)
        spec = self._spec(who, "urgent", _share(GPUS_PER_NODE), "due.py", members=nodes)
        timing = Timing(limit_s=2 * HOUR_S, deadline=Moment(after_s=12 * HOUR_S))
        spec = msgspec.structs.replace(spec, priority=100, timing=timing)
        yield Submission(at_s=at_s, kind="urgent", spec=spec, runs_s=(self._around(HOUR_S),))

    def _spare(self) -> Iterator[Submission]:
        """Submit long training that yields to all other work of its team, and later continues where
        it stopped.
        """
        who, at_s = self._who(), self._when(0, 6)
        spec = self._spec(who, "spare", _share(GPUS_PER_NODE), "spare.py")
        timing = Timing(
            limit_s=12 * HOUR_S,
            signal=WarningSignal(name="USR1", before_s=120.0),
            requeue=Requeue(reasons=("preempted", "node", "timeout")),
        )
        spec = msgspec.structs.replace(spec, priority=-10, timing=timing)
        yield Submission(
            at_s=at_s, kind="spare", spec=spec, runs_s=(self._around(6 * HOUR_S),), keeps=True
        )

    def _pupil(self) -> Iterator[Submission]:
        """Submit work of a course. Its GPUs are reserved for jobs that name the reservation."""
        who = self._who()
        at_s = moment(self._draw, self._size.hours, 13.8, 15.5)
        spec = self._spec(who, "pupil", _share(1), "exercise.py")
        timing = Timing(limit_s=1_800.0)
        spec = msgspec.structs.replace(spec, reservation=COURSE, timing=timing)
        yield Submission(at_s=at_s, kind="pupil", spec=spec, runs_s=(self._around(700.0),))

    def _licensed(self) -> Iterator[Submission]:
        """Submit work that needs one of the few licenses of a program."""
        who, at_s = self._who(), self._when()
        spec = self._spec(who, "licensed", {"CPU": 8.0, "memory": 32e9}, "solve.m")
        spec = msgspec.structs.replace(
            spec, licenses=((LICENSE, 1),), timing=Timing(limit_s=2 * HOUR_S)
        )
        yield Submission(at_s=at_s, kind="licensed", spec=spec, runs_s=(self._around(2_400.0),))

    def _backups(self) -> Iterator[Submission]:
        """Submit backups. Only one of them runs at a time, even if several are submitted."""
        who = self._crowd[0]
        for hour in range(0, 24, 6):
            spec = self._spec(who, "backup", {"CPU": 2.0, "memory": 8e9}, "backup.sh")
            word = Dependency(kind=SINGLETON, job="default/backup")
            spec = msgspec.structs.replace(spec, after=Dependencies(needs=(word,)))
            at_s = hour / 24 * self._size.hours * HOUR_S
            yield Submission(at_s=at_s, kind="backup", spec=spec, runs_s=(1_800.0,))

    # ---- parts -------------------------------------------------------------------------------

    def _who(self) -> Person:
        return self._draw.choice(self._crowd)

    def _when(self, first: float = 0.0, last: float = 24.0) -> float:
        return moment(self._draw, self._size.hours, first, last)

    def _several(self, least: int, most: int) -> int:
        return max(2, round(self._part * self._draw.randint(least, most)))

    def _around(self, median_s: float, spread: float = _SPREAD) -> float:
        return max(10.0, float(round(self._draw.lognormvariate(math.log(median_s), spread))))

    def _limit(self, median_s: float) -> Timing:
        """Draw a user's time limit, in quarters of an hour. It is usually longer than the expected
        time.
        """
        asked_s = median_s * self._draw.uniform(1.4, 3.0)
        return Timing(limit_s=math.ceil(asked_s / _QUARTER_S) * _QUARTER_S)

    def _array(
        self, who: Person, kind: str, needs: dict[str, float], count: int, most: int | None,
        median_s: float,
    ) -> JobSpec:  # fmt: skip
        spec = self._spec(who, kind, needs, f"{kind}.py")
        array = ArraySpec(ranges=((0, count - 1, 1),), limit=most)
        return msgspec.structs.replace(spec, array=array, timing=self._limit(median_s))

    def _spec(
        self, who: Person, kind: str, needs: dict[str, float], script: str, members: int = 1
    ) -> JobSpec:
        self._count += 1
        process = Process(command=("python", script), requests=tuple(sorted(needs.items())))
        group = TaskGroup(
            name="worker",
            replicas=members,
            min_available=members,
            template=Template(processes=(process,)),
        )
        return JobSpec(
            name=f"{kind}-{self._count:04d}",
            queue=who.team,
            user=who.name,
            groups=(group,),
            min_available=members,
        )


def _share(gpus: int) -> dict[str, float]:
    """Return a request for some of a machine's GPUs, with almost the same fraction of its other
    resources.
    """
    return {"GPU": float(gpus), "CPU": 11.0 * gpus, "memory": 80e9 * gpus}


def _after(kind: str, other: JobSpec) -> Dependencies:
    return Dependencies(needs=(Dependency(kind=kind, job=other.uid),))
