"""Has dask-jobqueue's tests for Slurm run on a cluster: a plug-in of pytest, in the place of the
conftest.py that dask-jobqueue's repository has and its package has not."""

import pytest
from dask_jobqueue import SLURMCluster
from distributed.utils_test import cleanup, loop, loop_in_thread

from conftest import slurm

__all__ = ["SLURMCluster", "cleanup", "loop", "loop_in_thread", "slurm"]
"""Distributed restores the configuration that it finds at its import: dask-jobqueue comes first."""


def pytest_configure(config):
    config.addinivalue_line("markers", "env(name): the queue that a test needs")


@pytest.fixture(autouse=True)
def directory(slurm, tmp_path, monkeypatch):
    """Where the test runs: its jobs write their outputs there."""
    monkeypatch.chdir(tmp_path)
