"""Tasks run where their large arguments are."""

from __future__ import annotations

import numpy as np
import pytest
from tests.system.cluster.conftest import PATIENCE_S

import phalanx
from phalanx.cluster_utils import Cluster

LARGE, SMALL = 200_000, 1_000
CPUS = 16
"""The CPUs of each node. With this number, idle workers of earlier tests do not keep a task from
its node.
"""


@phalanx.remote(num_cpus=1)
def make(size):
    return np.zeros(size, dtype=np.int8)


@phalanx.remote(num_cpus=1)
def where(*arrays):
    return phalanx.get_runtime_context().get_node_id()


@phalanx.remote
class Occupant:
    def ready(self):
        return True


@pytest.fixture(scope="module")
def two():
    """Yield (the id of this node, the id of the other node, a function that makes an array on one
    of them).
    """
    cluster = Cluster()
    here = cluster.add_node(num_cpus=CPUS, resources={"here": 9})
    there = cluster.add_node(num_cpus=CPUS, resources={"there": 9})
    cluster.connect()
    cluster.wait_for_nodes(PATIENCE_S)

    def made(size, name):
        ref = make.options(resources={name: 1}).remote(size)
        phalanx.wait([ref], timeout=PATIENCE_S, fetch_local=False)
        return ref

    yield here.node_id, there.node_id, made
    cluster.shutdown()


@pytest.mark.parametrize(
    ("arguments", "goes"),
    [
        ([(LARGE, "there")], "there"),
        ([(SMALL, "there")], "here"),
        ([(LARGE, "here")], "here"),
        ([(LARGE, "here"), (2 * LARGE, "there")], "there"),
        ([(2 * LARGE, "here"), (LARGE, "there")], "here"),
        ([], "here"),
    ],
)
def test_where_most_bytes_are(two, get, arguments, goes):
    here, there, made = two
    refs = [made(*one) for one in arguments]
    assert get(where.remote(*refs)) == {"here": here, "there": there}[goes]


def test_elsewhere_when_that_node_is_full_and_the_copy_counts_then(two, get):
    here, _there, made = two
    array = made(LARGE, "there")
    occupant = Occupant.options(num_cpus=CPUS, resources={"there": 1}).remote()
    get(occupant.ready.remote())
    assert get(where.remote(array)) == here
    phalanx.kill(occupant)
    assert get(where.remote(array)) == here


def test_wait_brings_what_lies_elsewhere_unless_told_not_to(two):
    array = two[2](LARGE, "there")
    assert phalanx.wait([array], timeout=0, fetch_local=False)[0] == [array]
    assert phalanx.wait([array], timeout=0)[0] == []
    assert phalanx.wait([array], timeout=PATIENCE_S)[0] == [array]
    assert phalanx.wait([array], timeout=0)[0] == [array]


def test_wait_takes_what_is_here_first(two, get):
    here, there = two[2](LARGE, "here"), two[2](LARGE, "there")
    small = make.remote(SMALL)
    get(small)
    assert phalanx.wait([there, here, small], num_returns=2, timeout=PATIENCE_S)[0] == [here, small]
    ready, rest = phalanx.wait([there, here, small], num_returns=3, timeout=PATIENCE_S)
    assert (ready, rest) == ([there, here, small], [])


def test_another_strategy_goes_first(two, get):
    from phalanx.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    here, _, made = two
    array = made(LARGE, "there")
    bound = NodeAffinitySchedulingStrategy(here, soft=False)
    assert get(where.options(scheduling_strategy=bound).remote(array)) == here


def test_a_node_whose_workers_only_idle_is_asked_first(two, get):
    _here, there, made = two
    occupant = Occupant.options(num_cpus=CPUS - 1, resources={"there": 1}).remote()
    get(occupant.ready.remote())
    ran_on = [get(where.remote(made(400 * LARGE, "there"))) for _ in range(6)]
    phalanx.kill(occupant)
    # Not each time: it is asked for no longer than bringing the arguments would take, and on a
    # machine that is slow it may answer later than that.
    assert there in ran_on
