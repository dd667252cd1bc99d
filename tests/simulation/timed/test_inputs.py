"""The traces and queue files that the simulation accepts."""

from __future__ import annotations

import pytest

from phalanx.errors import BatchFileError
from phalanx_research.timed import WorkloadError, classic, from_trace, read_queues, simulate
from phalanx_research.timed.workload import GPU
from phalanx_research.traces.records import TraceJob, TraceNode

NODES = [
    TraceNode(name="z", cpu_milli=8000, memory_mib=1024, gpus=8, model="A"),
    TraceNode(name="a", cpu_milli=8000, memory_mib=1024, gpus=8, model="B"),
]


def trained(**given: object) -> TraceJob:
    fields: dict[str, object] = {"name": "j", "submitted_s": 0.0, "duration_s": 10.0}
    return TraceJob(**(fields | {"num_gpu": 1, "gpu_milli": 1000} | given))  # type: ignore[arg-type]


def test_machines_keep_the_order_of_the_trace() -> None:
    machines, _ = from_trace(NODES, [])
    assert [m.name for m in sorted(machines, key=lambda m: m.name)] == ["0-z", "1-a"]


@pytest.mark.parametrize(
    ("gpus", "parts"),
    [(1, [(1, 1)]), (8, [(1, 8)]), (16, [(2, 8)]), (20, [(2, 8), (1, 4)])],
)
def test_more_gpus_than_a_machine_has_take_whole_ones(
    gpus: int, parts: list[tuple[int, int]]
) -> None:
    _, (job,) = from_trace(NODES, [trained(num_gpu=gpus)])
    assert [(p.count, dict(p.shape.request)[GPU]) for p in job.parts] == parts


def test_members_shares_and_models() -> None:
    job = trained(members=3, gpu_milli=500, models=("B",), cpu_milli=2000, queue="q")
    machines, jobs = from_trace(NODES, [job])
    assert (jobs[0].size, jobs[0].least, jobs[0].amount(GPU)) == (3, 3, 1.5)
    queues = read_queues("[{name: q}]")
    result = simulate(jobs, machines, config=classic("fifo"), queues=queues)
    assert result.measures.finished == 1
    _, wrong = from_trace(NODES, [trained(models=("C",))])
    result = simulate(wrong, machines, config=classic("fifo"))
    assert result.measures.never_started == 1


@pytest.mark.parametrize(
    ("workload", "gpus", "overhead_s"), [("a2c", 8, 46), ("bert", 1, 10), ("vgg16", 3, 10)]
)
def test_overheads(workload: str, gpus: int, overhead_s: float) -> None:
    job = trained(workload=workload, num_gpu=gpus)
    _, (costly,) = from_trace(NODES, [job], overheads=True)
    _, (free,) = from_trace(NODES, [job])
    assert (costly.overhead_s, free.overhead_s) == (overhead_s, 0)


def test_pooled_counts_only() -> None:
    machines, (job,) = from_trace(NODES, [trained(num_gpu=12)], pooled=True)
    assert len(machines) == 1
    assert [p.count for p in job.parts] == [1]
    assert simulate([job], machines, config=classic("fifo")).measures.finished == 1


def test_jobs_without_times_are_named() -> None:
    with pytest.raises(WorkloadError, match="job j: the trace has no duration"):
        from_trace(NODES, [trained(duration_s=None)])
    with pytest.raises(WorkloadError, match="job j: the trace has no submission"):
        from_trace(NODES, [trained(submitted_s=None)])


def test_queue_files() -> None:
    queues = read_queues(
        """
queues:
- {name: lab, weight: 3}
- name: research
  parent: lab
  capability: {nvidia.com/gpu: 64}
- kind: Queue
  metadata: {name: prod}
  spec: {weight: 2, reclaimable: false, guarantee: {resource: {nvidia.com/gpu: 8}}}
- {name: ops, parent: root}
"""
    )
    assert [(q.name, q.weight, q.parent) for q in queues] == [
        ("lab", 3, ""), ("research", 1, "lab"), ("prod", 2, ""),
        ("ops", 1, "root"),
    ]  # fmt: skip
    assert queues[1].capability == ((GPU, 64.0),)
    assert (queues[2].guarantee, queues[2].reclaimable) == (((GPU, 8.0),), False)


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        ("- {name: a}\n- {name: a}", 2, "queues holds 'a' twice"),
        ("- {name: a}\n- {name: b, parent: c}", 2, "the parent 'c', which is not listed"),
        ("- {name: a, wait: 2}", 1, "no key 'wait'"),
        ("- {name: a, capability: {gpu: -1}}", 1, "from 0 to"),
        ("queues: []", 1, "the file lists no queue"),
        ("- kind: Job\n  metadata: {name: a}", 1, "kind must be Queue, not 'Job'"),
        ("- kind: Queue\n  metadata: {name: a}\n  spec: {color: red}", 3, "no key 'color'"),
    ],
)
def test_bad_queue_files_name_the_line(text: str, line: int, says: str) -> None:
    with pytest.raises(BatchFileError) as error:
        read_queues(text, "q.yaml")
    assert f"q.yaml:{line}" in str(error.value)
    assert says in str(error.value)
