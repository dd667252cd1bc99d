"""The benchmark of cluster sizes reports everything that it counts."""

from __future__ import annotations

import msgspec

from phalanx.model.jobs.states import PENDING, RUNNING
from phalanx.protocol.requests.jobs import ApplyManifests, ListJobs, Manifest
from phalanx_benchmarks import scale
from phalanx_benchmarks.fed_head import FedHead, gpu_job


def test_each_size_has_its_rows() -> None:
    rows = scale.run(
        lambda: 0.0, nodes=(8,), waiting=(90,), actors=((30, 3),), full=((3, 3, 8, 12),)
    )
    assert [row["what"].partition(":")[0] for row in rows] == [
        "8 nodes join",
        "8 nodes",
        "8 nodes",
        "90 waiting jobs, submitted 1,000 at a time",
        "90 waiting jobs",
        "90 waiting jobs",
        "90 waiting jobs",
        "30 actors on 3 nodes, 30 ready",
        "3 nodes, 24 members run, 12 jobs wait",
    ]
    assert all(row["cpu ms"] >= 0 for row in rows)


def test_a_head_starts_again_with_the_jobs_that_wait(tmp_path) -> None:
    tmp_path.chmod(0o700)
    store = str(tmp_path / "control.db")
    head = FedHead(store)
    head.join(1)
    specs = [msgspec.msgpack.encode(gpu_job(f"job-{n}")) for n in range(11)]
    head.ask(ApplyManifests([Manifest("Job", spec) for spec in specs]))
    head.settle()
    states = sorted(job.state for job in head.ask(ListJobs()))
    assert states == [PENDING] * 3 + [RUNNING] * 8
    head.close()
    again = FedHead(store)
    assert len(again.ask(ListJobs())) == 11
    again.close()
