"""Parsl's SlurmProvider with its defaults: apps in a block, with each launcher for Slurm."""

import parsl
import pytest
from parsl.config import Config
from parsl.executors import HighThroughputExecutor
from parsl.launchers import SimpleLauncher, SingleNodeLauncher, SrunLauncher
from parsl.providers import SlurmProvider
from steps_of_jobs import done, until


@pytest.mark.parametrize("launcher", [SimpleLauncher, SingleNodeLauncher, SrunLauncher])
def test_apps_run_in_a_block(directory, launcher):
    @parsl.python_app
    def where(by):
        import os

        return by * 2, os.environ["SLURM_JOB_ID"]

    provider = SlurmProvider(
        partition="default", walltime="00:10:00", init_blocks=1, max_blocks=1, launcher=launcher()
    )
    executor = HighThroughputExecutor(
        provider=provider, address="127.0.0.1", max_workers_per_node=2, encrypted=False
    )
    with parsl.load(Config(executors=[executor], run_dir=str(directory / "runs"))):
        found = [one.result() for one in [where(by) for by in range(4)]]
        assert [value for value, _ in found] == [0, 2, 4, 6]
        (job,) = {job for _, job in found}
        assert executor.status()["0"].state.name == "RUNNING"
    until(lambda: job not in done("squeue", "-ho", "%i").split())
