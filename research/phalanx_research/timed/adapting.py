"""Translates a trace's records into machines and jobs over time."""

from __future__ import annotations

from collections.abc import Sequence

from phalanx.scheduler.cycle.move_terms import MOVABLE
from phalanx.scheduler.cycle.specs import Affinity, Amounts, Match, NodeSpec, Shape
from phalanx_research.timed.workload import GPU, Job, Part, Training, WorkloadError, machine
from phalanx_research.traces.records import TraceJob, TraceNode

MODEL = "gpu-model"
"""The label that names a machine's GPU model."""
MIB = 2.0**20

START_OVERHEAD_S: dict[str, dict[int, float]] = {
    "vgg16": {1: 7, 2: 7, 4: 8, 8: 9, 16: 9, 32: 10},
    "vgg19": {1: 7, 2: 7, 4: 8, 8: 9, 16: 10, 32: 10},
    "resnet18": {1: 4, 2: 5, 4: 5, 8: 7, 16: 7, 32: 7},
    "shufflenet_v2_x1_0": {1: 4, 2: 4, 4: 5, 8: 5, 16: 7, 32: 8},
    "bert": {1: 10, 2: 10, 4: 10, 8: 10, 16: 10, 32: 10},
    "gpt2": {1: 10, 2: 10, 4: 10, 8: 10, 16: 10, 32: 10},
    "a2c": {1: 38, 2: 39, 4: 39, 8: 46, 16: 46, 32: 46},
    "dqn": {1: 5, 2: 5, 4: 6, 8: 6, 16: 8, 32: 8},
}
"""The seconds that a start takes, by workload and number of GPUs, as measured for Muri (Zhao et
al., 2022).
"""
UNKNOWN_OVERHEAD_S = 10.0


def from_trace(
    nodes: Sequence[TraceNode],
    jobs: Sequence[TraceJob],
    *,
    pooled: bool = False,
    overheads: bool = False,
) -> tuple[list[NodeSpec], list[Job]]:
    """Return the machines in the order of the trace, and the jobs that have a submission time and a
    run time. A job of one member that requests more GPUs than the largest machine has takes whole
    machines, and the rest of its GPUs on one more machine. `pooled` joins all machines into one, so
    that only the number of GPUs matters. `overheads` adds the time that a start takes. Raises
    WorkloadError for a job that lacks a time.
    """
    width = len(str(len(nodes)))
    machines = [_machine(f"{i:0{width}d}-{node.name}", node) for i, node in enumerate(nodes)]
    if pooled:
        machines = [
            machine(
                "pool",
                cpu=sum(node.cpu_milli for node in nodes) / 1000,
                memory=sum(node.memory_mib for node in nodes) * MIB,
                gpus=sum(node.gpus for node in nodes),
            )
        ]
    most = max((dict(node.capacity)[GPU] for node in machines), default=0.0)
    shapes: dict[tuple[int, int, int, int, tuple[str, ...]], Shape] = {}
    return machines, [_job(job, int(most), shapes, overheads=overheads) for job in jobs]


def _machine(name: str, node: TraceNode) -> NodeSpec:
    return machine(
        name,
        cpu=node.cpu_milli / 1000,
        memory=node.memory_mib * MIB,
        gpus=float(node.gpus),
        labels=((MODEL, node.model),) if node.model else (),
    )


def _job(
    job: TraceJob,
    most: int,
    shapes: dict[tuple[int, int, int, int, tuple[str, ...]], Shape],
    *,
    overheads: bool,
) -> Job:
    if job.submitted_s is None or job.duration_s is None:
        lacks = "submission" if job.submitted_s is None else "duration"
        raise WorkloadError(
            f"job {job.name}: the trace has no {lacks}; --arrival time needs both times"
        )

    def part(gpus: int, count: int) -> Part:
        key = (job.cpu_milli, job.memory_mib, gpus, job.gpu_milli, job.models)
        if key not in shapes:
            shapes[key] = _shape(*key)
        return Part(shape=shapes[key], count=count)

    whole, rest = divmod(job.num_gpu, most) if job.num_gpu > most > 0 else (0, job.num_gpu)
    parts = [part(most, whole * job.members)] if whole else []
    if rest or not whole:
        parts.append(part(rest, job.members))
    overhead_s = 0.0
    if overheads:
        known = START_OVERHEAD_S.get(job.workload, {})
        overhead_s = known.get(job.num_gpu * job.members, UNKNOWN_OVERHEAD_S)
    return Job(
        name=job.name,
        submit_s=job.submitted_s,
        work_s=job.duration_s,
        parts=tuple(parts),
        queue=job.queue,
        priority=job.priority,
        overhead_s=overhead_s,
        annotations=((MOVABLE, job.movable),) if job.movable else (),
        training=_training(job),
    )


def _training(job: TraceJob) -> Training | None:
    """Return the known facts about a job's training. All iterations take the same time."""
    if not job.iterations or job.duration_s is None:
        return None
    return Training(
        iteration_s=job.duration_s / job.iterations,
        stages_s=tuple(stage / 1000 for stage in job.stages_ms),
        stated_s=job.stated_s,
    )


def _shape(cpu: int, memory: int, gpus: int, milli: int, models: tuple[str, ...]) -> Shape:
    request: Amounts = (("cpu", cpu / 1000), ("memory", memory * MIB), (GPU, gpus * milli / 1000))
    affinity = None
    if models:
        affinity = Affinity(node_required=((Match(key=MODEL, op="In", values=models),),))
    return Shape(request=tuple((n, x) for n, x in request if x), affinity=affinity)
