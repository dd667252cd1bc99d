"""PSI/J's Slurm executor: a job's output and states, a failure, several tasks, and an end."""

from datetime import timedelta
from pathlib import Path

import psij
import pytest

WAIT = timedelta(seconds=240)


@pytest.fixture(scope="module")
def executor():
    return psij.JobExecutor.get_instance("slurm")


def spec(directory, *words, **more):
    return psij.JobSpec("/bin/sh", ["-c", *words], directory=directory, **more)


def test_a_job_writes_where_it_is_told_to(executor, directory):
    attributes = psij.JobAttributes(duration=timedelta(minutes=10), queue_name="default")
    asked = spec(directory, "echo $WORD", stdout_path=directory / "out", attributes=attributes)
    asked.environment = {"WORD": "here"}
    job = psij.Job(asked)
    executor.submit(job)
    assert job.wait(WAIT).state == psij.JobState.COMPLETED
    assert (directory / "out").read_text() == "here\n"


def test_a_failure_has_its_exit_code(executor, directory):
    job = psij.Job(spec(directory, "exit 3"))
    executor.submit(job)
    status = job.wait(WAIT)
    assert (status.state, status.exit_code) == (psij.JobState.FAILED, 3)


def test_srun_starts_each_process(executor, directory):
    resources = psij.ResourceSpecV1(process_count=2, cpu_cores_per_process=1)
    asked = spec(directory, "echo one >> lines", resources=resources, launcher="srun")
    job = psij.Job(asked)
    executor.submit(job)
    assert job.wait(WAIT).state == psij.JobState.COMPLETED
    assert Path("lines").read_text() == "one\n" * 2


def test_a_job_that_runs_is_listed_attached_to_and_canceled(executor, directory):
    job = psij.Job(spec(directory, "sleep 600"))
    executor.submit(job)
    job.wait(WAIT, target_states=[psij.JobState.ACTIVE])
    assert job.native_id in executor.list()
    same = psij.Job()
    executor.attach(same, job.native_id)
    job.cancel()
    assert job.wait(WAIT).state == psij.JobState.CANCELED
    assert same.wait(WAIT).final
