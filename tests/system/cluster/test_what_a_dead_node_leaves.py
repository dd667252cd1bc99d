"""The remains of a node that was killed: nothing on its machine, and on other nodes no copies that
nobody reads.
"""

from __future__ import annotations

import os
from functools import partial

import numpy as np
import pytest
from tests.polling import PATIENCE_S, eventually
from tests.present import present

import phalanx
from phalanx import errors
from phalanx.protocol.requests.node import GetStoreCounts
from phalanx.runtime.engine.interface import current
from phalanx.runtime.os.process_tree import descendants_of, is_dead

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
    """Return a cluster with this driver's node, a second node, and a node that the test kills."""
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


def content_of(path):
    return path.read_text().strip() if path.exists() else ""


@pytest.mark.slow
def test_processes_of_jobs_end_with_a_node_that_is_killed_and_with_the_cluster(
    new_cluster, tmp_path
):
    """The job's shell waits for a child process, which gets another parent when the shell dies."""
    cluster = new_cluster(1)
    victim = cluster.add_node(num_cpus=1, resources={"there": 1})
    pids = []
    for name, resources in (("killed", {"there": 1}), ("shut down", {})):
        path = tmp_path / name
        script = f"setsid sh -c 'echo $$ > \"{path}\"; sleep 1000; true' & wait"
        phalanx.submit(phalanx.Job(script, num_cpus=1, resources=resources, name=name[:4]))
        pids.append(int(eventually(partial(content_of, path), name)))
    below = [[pid, *descendants_of(pid)] for pid in pids]
    cluster.remove_node(victim, allow_graceful=False)
    eventually(lambda: all(map(is_dead, below[0])))
    assert not is_dead(pids[1])
    cluster.shutdown()
    eventually(lambda: all(map(is_dead, below[1])))
