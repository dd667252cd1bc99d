"""The parts of a simulated day: machines, jobs with their times, and the rules of the run."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Literal

import msgspec

from phalanx.errors import PhalanxError
from phalanx.head.gangs.cycles import Pace
from phalanx.scheduler.cycle.amounts import ALIASES, is_counted
from phalanx.scheduler.cycle.specs import (
    Amounts,
    Labels,
    LicenseSpec,
    NodeSpec,
    QueueSpec,
    ReservationSpec,
    Shape,
)

GPU = "nvidia.com/gpu"
PODS = 1_000_000.0
"""The default number of tasks that fit on a machine: in effect no limit."""


class WorkloadError(PhalanxError, ValueError):
    """Raised for a workload that cannot be simulated. The text names the job or machine, the fault,
    and what is allowed.
    """


class Part(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """`count` equal tasks of a job."""

    shape: Shape
    count: int = 1


class Training(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Facts about the iterations of a training job that does not share its GPUs. `iteration_s`: the
    seconds of one iteration. `stages_s`: the seconds in which an iteration prepares data, computes
    on GPUs and waits for the network; empty if unknown. `stated_s`: the run time that the trace
    states; None if only the true time is known.
    """

    iteration_s: float
    stages_s: tuple[float, ...] = ()
    stated_s: float | None = None


class Job(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A job. `work_s`: the time for which each task runs if nothing disturbs it. At least
    `min_tasks` of the tasks start together, or none starts; None means all tasks. `overhead_s`: the
    additional time of each start. `training`: facts for policies with which jobs share GPUs.
    """

    name: str
    submit_s: float
    work_s: float
    parts: tuple[Part, ...]
    queue: str = "default"
    priority: int = 0
    min_tasks: int | None = None
    overhead_s: float = 0.0
    user: str = ""
    reservation: str = ""
    licenses: tuple[tuple[str, int], ...] = ()
    annotations: Labels = ()
    """The annotations of the job's podgroup, such as those by which it may be moved."""
    training: Training | None = None

    @property
    def size(self) -> int:
        """The number of all tasks."""
        return sum(part.count for part in self.parts)

    @property
    def least(self) -> int:
        """The smallest number of tasks that start together."""
        return self.size if self.min_tasks is None else self.min_tasks

    def amount(self, resource: str) -> float:
        """Return the amount of a resource that all tasks of the job request together."""
        return sum(part.count * requested(part.shape, resource) for part in self.parts)


class KeptApart(msgspec.Struct, frozen=True, kw_only=True):
    """Resources that are not available to all jobs at all times: reservations, and licenses with
    their counts. A job that uses a reservation runs to its end, even if the reservation ends
    earlier.
    """

    reservations: tuple[ReservationSpec, ...] = ()
    licenses: tuple[LicenseSpec, ...] = ()

    def next_change(self, now: float) -> float:
        """Return the next time at which a reservation begins or ends; infinite if there is none."""
        windows = (window for one in self.reservations for window in one.windows)
        times = (time for window in windows for time in window if time is not None and time > now)
        return min(times, default=math.inf)


NOTHING_KEPT = KeptApart()


class Rules(msgspec.Struct, frozen=True, kw_only=True):
    """The rules of time. `period_s`: the shortest time between two cycles; a cycle runs only if
    something has changed. `tick_s`: the longest time between two cycles while a job waits; None: no
    cycle runs only because time has passed. `preempted`: work done before a preemption counts
    ("checkpoint"), or is done again ("lost"). `overhead`: the overhead is added at each start
    ("start"), or at every event for every running job ("event", the rule of Muri's published
    tables). `anew`: each cycle assigns the whole cluster again, in order, instead of only the free
    resources. A job without a place is then preempted; moving to another place costs nothing.
    `sample_s`: the shortest time between two rows of the series. `pace`: with None, every cycle may
    evict. `Pace()` is the head's pace, which evicts less often, and only for a job that has a
    higher priority or is of another queue. It replaces `period_s`.
    """

    period_s: float = 1.0
    tick_s: float | None = None
    preempted: Literal["checkpoint", "lost"] = "checkpoint"
    overhead: Literal["start", "event"] = "start"
    anew: bool = False
    sample_s: float = 0.0
    pace: Pace | None = None


def requested(shape: Shape, resource: str) -> float:
    """Return the amount of a resource in a task's request."""
    return sum(x for name, x in shape.request if ALIASES.get(name, name) == resource)


def machine(
    name: str, *, cpu: float, memory: float = 1e15, gpus: float = 0.0, labels: Labels = ()
) -> NodeSpec:
    """Return a machine with `cpu` cores, `memory` bytes, `gpus` devices, and no limit on tasks."""
    capacity: Amounts = (("cpu", cpu), ("memory", memory), ("pods", PODS))
    return NodeSpec(name=name, capacity=(*capacity, (GPU, gpus)), labels=labels)


def check(jobs: Sequence[Job], nodes: Sequence[NodeSpec], queues: Sequence[QueueSpec]) -> None:
    """Raise WorkloadError for a workload that cannot be simulated."""
    if not nodes:
        raise WorkloadError("a simulation needs at least one machine")
    _distinct("machine", (node.name for node in nodes))
    _distinct("queue", (queue.name for queue in queues))
    _distinct("job", (job.name for job in jobs))
    known = {ALIASES.get(name, name) for node in nodes for name, _ in node.capacity}
    good_shapes: set[int] = set()
    names = {queue.name for queue in queues}
    for job in jobs:
        _check_job(job, names)
        for part in job.parts:
            if id(part.shape) not in good_shapes:
                _check_shape(job, part.shape, known)
                good_shapes.add(id(part.shape))


def _check_job(job: Job, queues: set[str]) -> None:
    for what, value in (
        ("submit_s", job.submit_s),
        ("work_s", job.work_s),
        ("overhead_s", job.overhead_s),
    ):
        if not (math.isfinite(value) and value >= 0):
            raise WorkloadError(
                f"job {job.name}: {what} must be a time of 0 s or more, not {value}"
            )
    if job.queue not in queues:
        raise WorkloadError(
            f"job {job.name}: there is no queue {job.queue!r}; there are "
            f"{', '.join(sorted(queues))}"
        )
    if not job.parts or any(part.count < 1 for part in job.parts):
        raise WorkloadError(
            f"job {job.name}: a job needs at least one part, and each part at least one task"
        )
    if not 0 <= job.least <= job.size:
        raise WorkloadError(
            f"job {job.name}: min_tasks must be 0 to {job.size}, the number of its tasks, not "
            f"{job.min_tasks}"
        )


def _check_shape(job: Job, shape: Shape, known: set[str]) -> None:
    for name, x in shape.request:
        if not (math.isfinite(x) and x >= 0):
            raise WorkloadError(f"job {job.name}: a request of {name} must be 0 or more, not {x}")
        if is_counted(name) and ALIASES.get(name, name) not in known:
            raise WorkloadError(
                f"job {job.name}: it requests {name}, which no machine has; the machines have "
                f"{', '.join(sorted(known))}"
            )


def _distinct(kind: str, names: Iterable[str]) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise WorkloadError(f"two {kind}s are named {name!r}; names must be unique")
        seen.add(name)
