"""Workers in containers, which a forked process starts: their pids, and the variables that they
get.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from phalanx.model.environments import DRIVER_DIRECTORY, ENVIRONMENT
from phalanx.model.system_settings import SystemSettings
from phalanx.node.known_jobs import KnownJobs
from phalanx.node.worker_output import WorkerOutput
from phalanx.node.workers import WorkerPool
from phalanx.protocol.cluster_messages import EnvironmentKnown, JobKnown
from phalanx.protocol.node_messages import LogLine

JOB = b"job1"
KNOWN = JobKnown(JOB, b"driver", [], "/home/ana", "", b"", True)


def test_a_line_of_the_forked_process_is_shown_with_the_workers_pid():
    pool = WorkerPool(1, lambda job: b"w" * 12 + job)
    pool.ready(pool.new(JOB).worker_id, pid=200, now=0.0, forked_as=100)
    jobs = KnownJobs(SystemSettings())
    jobs.job_known(KNOWN)
    kept: list[int] = []
    shown: list[LogLine] = []
    anything: Any = SimpleNamespace
    output = WorkerOutput(
        anything(append=lambda worker, line: kept.append(line.pid)),
        anything(),
        workers=pool,
        jobs=jobs,
        peers=anything(get=lambda driver: anything(post=shown.append)),
        links=anything(),
    )
    for pid in (100, 200, 300):
        output.printed(LogLine(pid, "f", "text", False))
    assert kept == [200, 200], "nobody has started 300"
    assert [line.pid for line in shown] == [200, 200]


def test_a_worker_in_an_environment_is_told_its_drivers_directory():
    jobs = KnownJobs(SystemSettings())
    jobs.environment_known(EnvironmentKnown(b"plain", {"A": "1"}, JOB))
    jobs.environment_known(EnvironmentKnown(b"made", {ENVIRONMENT: "{}"}, JOB))
    assert jobs.variables_of(JOB, b"made") == {ENVIRONMENT: "{}"}, "the job is not known yet"
    jobs.job_known(KNOWN)
    assert jobs.variables_of(JOB, b"plain") == {"A": "1"}
    assert jobs.variables_of(JOB, b"made") == {ENVIRONMENT: "{}", DRIVER_DIRECTORY: "/home/ana"}
