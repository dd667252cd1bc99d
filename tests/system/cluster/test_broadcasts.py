"""A large object that many nodes want at the same time: nodes pass it on, even when one of them
dies.
"""

from __future__ import annotations

import hashlib
import os

import numpy as np
from tests.polling import eventually

import phalanx
from phalanx.node.broadcasts import LARGE_BYTES
from phalanx.util.scheduling_strategies import NodeAffinitySchedulingStrategy

STORE_BYTES = 3 * LARGE_BYTES


@phalanx.remote(num_cpus=1)
def read(array):
    return hashlib.sha256(array).hexdigest()


@phalanx.remote(num_cpus=1)
def hold(array, pipe):
    with open(pipe, "rb") as end:
        end.read()


def on(node, task):
    strategy = NodeAffinitySchedulingStrategy(node.node_id, soft=False)
    return task.options(scheduling_strategy=strategy, max_retries=0)


def nodes_of(new_cluster, count):
    cluster = new_cluster(1)
    made = [cluster.add_node(num_cpus=1, object_store_memory=STORE_BYTES) for _ in range(count)]
    cluster.wait_for_nodes()
    return cluster, made


def a_large_one():
    array = np.random.default_rng(0).integers(0, 256, LARGE_BYTES, np.uint8)
    return phalanx.put(array), hashlib.sha256(array.data).hexdigest()


def sources():
    """Return the nodes from which transfers have begun, by the beginnings of their ids."""
    return [e["source"] for e in phalanx.cluster_events() if e["event"] == "PullStarted"]


def test_nodes_that_have_it_give_it_on(new_cluster, get):
    _, nodes = nodes_of(new_cluster, 6)
    ref, digest = a_large_one()
    assert get([on(node, read).remote(ref) for node in nodes]) == [digest] * 6
    found = eventually(lambda: sources() if len(sources()) == 6 else [])
    assert len(set(found)) > 1
    assert max(found.count(one) for one in found) < 6


def test_a_node_that_dies_while_others_are_to_have_it_from_there(new_cluster, get, tmp_path):
    cluster, nodes = nodes_of(new_cluster, 4)
    ref, digest = a_large_one()
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    holding = on(nodes[0], hold).remote(ref, str(pipe))
    eventually(sources)
    with open(pipe, "wb"):  # it runs: its node has the copy
        refs = [on(node, read).remote(ref) for node in nodes[1:]]
        cluster.remove_node(nodes[0], allow_graceful=False)
        assert get(refs) == [digest] * 3
    del holding
