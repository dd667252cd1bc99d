"""qtoolkit's commands for Slurm, and how qtoolkit reads their output."""

from pathlib import Path

from qtoolkit.core.data_objects import CancelStatus, QResources, QState, SubmissionStatus
from qtoolkit.host.local import LocalHost
from qtoolkit.io.slurm import SlurmIO
from qtoolkit.manager import QueueManager
from steps_of_jobs import over, until


def submit(directory, command):
    manager = QueueManager(SlurmIO(), LocalHost())
    resources = QResources(
        queue_name="default", job_name="kit", time_limit=600, nodes=1, processes_per_node=1,
        memory_per_thread=300, scheduler_kwargs={},
    )  # fmt: skip
    done = manager.submit(command, options=resources, work_dir=str(directory))
    assert done.status == SubmissionStatus.SUCCESSFUL, done.stderr
    return manager, done.job_id


def test_a_job_runs_to_its_end(directory):
    _, number = submit(directory, "echo here > words")
    assert over(number) == "COMPLETED"
    assert Path("words").read_text() == "here\n"


def test_a_job_that_runs_is_listed_and_cancelled(directory):
    manager, number = submit(directory, "sleep 600")
    until(lambda: manager.get_job(number).state == QState.RUNNING)
    found = manager.get_job(number)
    assert (found.name, found.info.nodes, found.info.cpus) == ("kit", 1, 1)
    (listed,) = manager.get_jobs_list(jobs=[number])
    assert (listed.state, listed.info.memory_per_cpu) == (QState.RUNNING, 300 * 1024)
    assert manager.cancel(number).status == CancelStatus.SUCCESSFUL
    assert over(number) == "CANCELLED"
