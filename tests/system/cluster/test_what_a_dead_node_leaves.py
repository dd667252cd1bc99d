"""Remains of a node that was killed: nothing on its machine, no copies that nobody reads."""

from __future__ import annotations

import os

import numpy as np
import pytest
from tests.polling import PATIENCE_S, eventually
from tests.present import present

import phalanx
from phalanx import errors
from phalanx.protocol.requests.node import GetStoreCounts
from phalanx.runtime.engine.interface import current

SIZE = 300_000


@phalanx.remote(num_cpus=0, resources={"there": 1})
def make(i):
    return np.full(SIZE, i)


@phalanx.remote(num_cpus=0, resources={"there": 1})
class Owner:
    def put(self, i):
        return [phalanx.put(np.full(SIZE, i))]


@pytest.fixture
def cluster(new_cluster):
    """This driver's node, one more, and one to be killed."""
    made = new_cluster(1)
    made.victim = made.add_node(num_cpus=1, resources={"there": 10})
    made.add_node(num_cpus=1)
    return made


def copies():
    return present(current()).ask(GetStoreCounts())["objects"]


def test_copies_that_nobody_reads_any_more_are_not_counted(cluster, get):
    own = [make.remote(i) for i in range(4)]
    assert [int(value[0]) for value in get(own)] == [0, 1, 2, 3]
    owner = Owner.remote()
    (borrowed,) = get(owner.put.remote(7))
    value = get(borrowed)
    assert copies() == 5
    cluster.remove_node(cluster.victim, allow_graceful=False)
    eventually(lambda: copies() == 1)
    del value
    assert int(get(borrowed)[0]) == 7, "its owner is dead, and its copy is here"


def test_files_of_a_node_whose_processes_were_all_killed_go(cluster, get):
    ref = make.remote(1)
    phalanx.wait([ref], timeout=PATIENCE_S, fetch_local=False)  # its one copy exists
    session = cluster.victim.daemon.session
    assert os.path.isdir(session.shared)
    cluster.remove_node(cluster.victim, allow_graceful=False)
    eventually(lambda: not (os.path.exists(session.shared) or os.path.exists(session.directory)))
    with pytest.raises(errors.GetTimeoutError):
        phalanx.get(ref, timeout=0.01)
