"""Clusters for suites whose host starts programs beside its own process."""

import os
import socket
import subprocess
import sys
from contextlib import contextmanager

import pytest

PHALANX = os.path.join(os.path.dirname(sys.executable), "phalanx")


@pytest.fixture(scope="session")
def cluster():
    """The address of one node of four CPUs. Programs find it by their environment."""
    with running(1, 4) as address:
        yield address


@pytest.fixture(scope="session")
def two_nodes():
    """The same of two nodes of two CPUs."""
    with running(2, 2) as address:
        yield address


@contextmanager
def running(nodes, cpus):
    """A cluster. TMPDIR has to be this run's own, as all clusters there are ended with it."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    address = f"127.0.0.1:{port}"
    start = [PHALANX, "start", "--num-cpus", str(cpus)]
    subprocess.run([*start, "--head", "--port", str(port)], check=True)
    for _ in range(nodes - 1):
        subprocess.run([*start, "--address", address], check=True)
    os.environ["PHALANX_ADDRESS"] = address
    try:
        yield address
    finally:
        del os.environ["PHALANX_ADDRESS"]
        subprocess.run([PHALANX, "stop", "--forget", "--yes"], check=True)
