"""The head's estimates of run times, from jobs that have completed."""

from __future__ import annotations

import msgspec

from phalanx.head.jobs.past_runs import PastJobs
from phalanx.model.jobs.records import JobRecord
from phalanx.model.jobs.spec import JobSpec, Process, TaskGroup, Template
from phalanx.scheduler.cycle.specs import PodGroupSpec


def job(name: str, command: str = "train", **other: object) -> JobRecord:
    template = Template(processes=(Process(command=(command,)),))
    spec = JobSpec(name=name, groups=(TaskGroup(name="worker", template=template),))
    return JobRecord(spec=msgspec.structs.replace(spec, **other), submitted=0.0)


def completed(record: JobRecord, run_time_s: float) -> JobRecord:
    record.state, record.started, record.finished = "Completed", 10.0, 10.0 + run_time_s
    return record


def test_jobs_of_one_kind_run_the_same_command_in_the_same_queue() -> None:
    waiting = job("c"), job("d", command="test"), job("e", queue="other")
    known: dict[str, JobRecord] = {record.uid: record for record in waiting}
    past = PastJobs(known.get)
    for name, run_time_s in (("a", 50.0), ("b", 70.0)):
        past.job_changed(completed(job(name), run_time_s))
    found = [past.learnt.of(PodGroupSpec(name=r.spec.name, queue="q")) for r in waiting]
    assert found[0] is not None
    assert (len(found[0]), found[0].quantile(0.9)) == (2, 70.0)
    assert found[1:] == [None, None]
    assert past.learnt.of(PodGroupSpec(name="tasks", queue="q")) is None, "it is no job's"


def test_only_what_completed_counts_and_only_once() -> None:
    record = job("a")
    known: dict[str, JobRecord] = {record.uid: record}
    past = PastJobs(known.get)
    group = PodGroupSpec(name="a", queue="q")
    past.job_changed(record)
    failed = completed(job("a"), 50.0)
    failed.state = "Failed"
    past.job_changed(failed)
    assert past.learnt.of(group) is None
    for _ in range(2):
        past.job_changed(completed(record, 50.0))
    found = past.learnt.of(group)
    assert found is not None
    assert len(found) == 1
