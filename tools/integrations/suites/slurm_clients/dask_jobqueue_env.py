"""A plug-in of pytest that runs dask-jobqueue's tests for Slurm on a cluster. It replaces the
conftest.py of dask-jobqueue's repository, which the package lacks.
"""

import pytest
from dask_jobqueue import SLURMCluster
from distributed.utils_test import cleanup, loop, loop_in_thread

from conftest import slurm

__all__ = ["SLURMCluster", "cleanup", "loop", "loop_in_thread", "slurm"]
"""dask-jobqueue is imported first, because distributed's fixtures restore the configuration that
existed when distributed was imported.
"""


def pytest_configure(config):
    config.addinivalue_line("markers", "env(name): the queue that a test needs")


@pytest.fixture(autouse=True)
def directory(slurm, tmp_path, monkeypatch):
    """Run the test in an empty directory, in which its jobs write their output."""
    monkeypatch.chdir(tmp_path)
