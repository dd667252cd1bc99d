"""Fixtures: one machine with four CPUs and four virtual GPUs, and clusters of several nodes."""

from __future__ import annotations

import pytest
from tests.polling import PATIENCE_S, eventually

import phalanx
from phalanx.cluster_utils import Cluster
from phalanx.protocol.requests.gangs import ListGangs


class Room:
    """A directory in which members of gangs leave marks and wait for marks."""

    def __init__(self, path):
        self.path = path

    def say(self, word):
        (self.path / str(word)).touch()

    def hears(self, word):
        return (self.path / str(word)).exists()

    def wait(self, word):
        eventually(lambda: self.hears(word))

    def words(self):
        return sorted(entry.name for entry in self.path.iterdir())


@pytest.fixture
def room(tmp_path):
    return Room(tmp_path)


@pytest.fixture
def get():
    def get(refs, timeout=PATIENCE_S):
        return phalanx.get(refs, timeout=timeout)

    return get


@pytest.fixture(scope="module")
def running_machine():
    phalanx.init(num_cpus=4, num_gpus=4)
    yield phalanx
    phalanx.shutdown()


@pytest.fixture
def machine(running_machine):
    """Return the machine when all its resources are free. Gangs of an earlier test may end a moment
    after their results.
    """
    eventually(none_left, "the end of all gangs of the test before")
    return running_machine


@pytest.fixture
def new_cluster():
    """Return a function that makes a cluster with one node for each set of options; this process
    becomes a driver.
    """
    made = []

    def make(*nodes, **options):
        cluster = Cluster(**options)
        made.append(cluster)
        for node in nodes:
            cluster.add_node(**node)
        cluster.connect(namespace="tests")
        cluster.wait_for_nodes(PATIENCE_S)
        return cluster

    yield make
    for cluster in made:
        cluster.shutdown()


def rows_of_gangs():
    """Return the gangs that are not over, as the head lists them."""
    from phalanx.api.session import engine_or_start

    return engine_or_start().ask(ListGangs())


def none_left():
    """Whether no gang is left and all CPUs and GPUs of the machine are free."""
    total, free = phalanx.cluster_resources(), phalanx.available_resources()
    return not rows_of_gangs() and all(free.get(name) == total.get(name) for name in ("CPU", "GPU"))
