"""clusterjob's backend for Slurm: submit, wait, states, and an end."""

from pathlib import Path

from clusterjob import Job
from clusterjob.status import CANCELLED, COMPLETED, FAILED, RUNNING
from steps_of_jobs import state_of, until


def submit(body):
    job = Job(
        body, jobname="clusterjob", backend="slurm", filename="clusterjob.slr", time="00:10:00",
        queue="default", stdout="out", sleep_interval=2, workdir="work",
    )  # fmt: skip
    return job.submit()


def test_a_job_runs_to_its_end():
    run = submit("echo here as $XXX_JOB_NAME")
    run.wait()
    assert (run.status, run.successful()) == (COMPLETED, True)
    assert Path("work/out").read_text() == "here as clusterjob\n"


def test_a_failure_is_told():
    run = submit("exit 3")
    run.wait()
    assert run.status == FAILED


def test_a_job_that_runs_is_cancelled():
    run = submit("sleep 600")
    until(lambda: run.status == RUNNING)
    run.cancel()
    until(lambda: state_of(run.job_id).startswith("CANCELLED"))
    assert run.status == CANCELLED
