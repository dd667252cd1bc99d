"""Clusters for these tests: real heads and nodes on this machine, ended with each test."""

from __future__ import annotations

from pathlib import Path

import pytest

from phalanx.cluster_utils import Cluster

PATIENCE_S = 120
"""The most seconds that a test waits for an event. Machines that run tests are slow at times."""


@pytest.fixture
def get():
    import phalanx

    def get(refs, timeout=PATIENCE_S):
        return phalanx.get(refs, timeout=timeout)

    return get


@pytest.fixture
def new_cluster():
    """Return a function that makes a cluster with one node for each number of CPUs. If there are
    nodes, this process becomes a driver.
    """
    made = []

    def make(*cpus, **options):
        cluster = Cluster(**options)
        made.append(cluster)
        for count in cpus:
            cluster.add_node(num_cpus=count)
        if cpus:
            cluster.connect(namespace="tests")
            cluster.wait_for_nodes(PATIENCE_S)
        return cluster

    yield make
    for cluster in made:
        for path in sorted(Path(cluster.temp_dir, "logs").glob("*")):
            print(f"---- {path.name}\n{path.read_text()}")
        cluster.shutdown()
