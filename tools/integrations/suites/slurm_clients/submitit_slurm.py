"""submitit's executor for Slurm: calls, an array, a failure, and an end."""

import pytest
import submitit
from steps_of_jobs import until
from submitit.core.utils import FailedJobError


@pytest.fixture
def executor(directory):
    executor = submitit.AutoExecutor(directory / "logs", cluster="slurm")
    executor.update_parameters(timeout_min=10, mem_gb=1, cpus_per_task=1, slurm_partition="default")
    return executor


def test_calls_and_arrays_have_results(executor):
    assert executor.submit(pow, 3, 2).result() == 9
    executor.update_parameters(slurm_array_parallelism=2)
    assert [job.result() for job in executor.map_array(abs, [-1, -2, -3])] == [1, 2, 3]


def test_tasks_of_a_job_know_their_places(executor):
    executor.update_parameters(nodes=1, tasks_per_node=2)
    job = executor.submit(lambda: submitit.JobEnvironment().global_rank)
    assert job.results() == [0, 1]


def test_a_failure_and_an_end_are_told(executor):
    failed = executor.submit(divmod, 1, 0)
    with pytest.raises(FailedJobError, match="ZeroDivisionError"):
        failed.result()
    import time

    endless = executor.submit(time.sleep, 600)
    until(lambda: endless.state == "RUNNING")
    endless.cancel()
    until(lambda: endless.state.startswith("CANCELLED"))
