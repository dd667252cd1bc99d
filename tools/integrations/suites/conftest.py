"""Clusters for suites of programs that start further processes."""

import os
import socket
import subprocess
import sys
from contextlib import contextmanager

import pytest

PHALANX = os.path.join(os.path.dirname(sys.executable), "phalanx")


@pytest.fixture(scope="session")
def cluster():
    """Yield the address of a cluster of one node with four CPUs.

    Programs find the cluster by PHALANX_ADDRESS.
    """
    with running(1, 4) as address:
        yield address


@pytest.fixture(scope="session")
def two_nodes():
    """Yield the address of a cluster of two nodes with two CPUs each."""
    with running(2, 2) as address:
        yield address


@pytest.fixture(scope="session")
def slurm(tmp_path_factory):
    """Run a cluster of one node with four CPUs and two GPUs, and put Slurm's commands first on
    PATH. Yields the directory of the commands.
    """
    commands = tmp_path_factory.mktemp("slurm")
    subprocess.run([PHALANX, "compat", "slurm", "install", str(commands)], check=True)
    os.environ["PATH"] = f"{commands}{os.pathsep}{os.environ['PATH']}"
    with running(1, 4, "--num-gpus", "2"):
        yield commands


@contextmanager
def running(nodes, cpus, *more):
    """Run a cluster. `more`: further words of `phalanx start` for each node.

    TMPDIR must belong to this run alone, because all clusters in it are ended at the end.
    """
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    address = f"127.0.0.1:{port}"
    start = [PHALANX, "start", "--num-cpus", str(cpus), *more]
    subprocess.run([*start, "--head", "--port", str(port)], check=True)
    for _ in range(nodes - 1):
        subprocess.run([*start, "--address", address], check=True)
    os.environ["PHALANX_ADDRESS"] = address
    try:
        yield address
    finally:
        del os.environ["PHALANX_ADDRESS"]
        subprocess.run([PHALANX, "stop", "--forget", "--yes"], check=True)
