"""The remains of a driver on the nodes after the driver has ended: only things that detached actors
need.
"""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from tests.polling import PATIENCE_S, eventually

import phalanx
from phalanx.cluster_utils import Cluster
from phalanx.runtime.gateway.object_files import is_object_name

DRIVER = """
import os, sys
import numpy as np
import phalanx

phalanx.init(address=sys.argv[1], namespace="ours", _temp_dir=sys.argv[2])

@phalanx.remote(resources={"there": 1}, num_cpus=0)
def make(i):
    return np.full(200_000, i)

@phalanx.remote(resources={"there": 1}, num_cpus=0)
def nest():
    kept = [make.remote(i) for i in range(2)]
    return sum(int(part[0]) for part in phalanx.get(kept))

@phalanx.remote(resources={"there": 1}, num_cpus=0, max_restarts=-1, max_task_retries=-1)
class Keeper:
    def __init__(self, given, made):
        self.total = int(given.sum() + made.sum())
    def sum(self):
        return self.total
    def pid(self):
        return os.getpid()

keeper = Keeper.options(name="keeper", lifetime="detached").remote(
    np.full(200_000, 3), make.remote(4)
)
put = [phalanx.put(np.full(200_000, i)) for i in range(3)]
made = [make.remote(i) for i in range(3)]
phalanx.get([*put, *made, nest.remote(), keeper.sum.remote()])
os._exit(0)
"""


@pytest.fixture
def cluster():
    cluster = Cluster()
    cluster.add_node(num_cpus=1)
    cluster.add_node(num_cpus=1, resources={"there": 10})
    yield cluster
    cluster.shutdown()


def objects(cluster):
    """Return the files of all nodes' objects, in memory and on disk."""
    found = []
    for session in os.listdir(cluster.temp_dir):
        for place in (
            f"/dev/shm/phalanx-{os.getuid()}-{session}",
            os.path.join(cluster.temp_dir, session),
        ):
            for _, _, names in os.walk(place):
                found += [name for name in names if is_object_name(name)]
    return found


def test_only_what_a_detached_actor_is_made_of_outlives_its_driver(cluster):
    argv = [sys.executable, "-c", DRIVER, cluster.address, cluster.temp_dir]
    subprocess.run(argv, check=True, timeout=PATIENCE_S)
    phalanx.init(address=cluster.address, namespace="ours", _temp_dir=cluster.temp_dir)
    eventually(lambda: len(set(objects(cluster))) == 2)
    keeper = phalanx.get_actor("keeper")
    os.kill(phalanx.get(keeper.pid.remote(), timeout=PATIENCE_S), 9)
    assert phalanx.get(keeper.sum.remote(), timeout=PATIENCE_S) == 200_000 * 7
    phalanx.kill(keeper)
    eventually(lambda: not objects(cluster))
