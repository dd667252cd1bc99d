"""Gangs on several nodes: placed together, and placed again when a node is lost."""

from __future__ import annotations

import os

import phalanx
from phalanx.cluster_utils import ClusterNode

from .conftest import await_true, none_left


@phalanx.remote(num_gpus=2, num_cpus=0, max_retries=3)
def where(room=None):
    context = phalanx.get_runtime_context()
    gang = context.gang
    if room is not None and not room.hears("go"):
        room.say(f"{gang.rank}@{context.get_node_id()}")
        room.wait("go")
    return gang.rank, context.get_node_id(), gang.local_rank, os.environ["LOCAL_WORLD_SIZE"]


def test_a_gang_spans_nodes_and_each_member_knows_its_place_on_its_own(new_cluster, get):
    new_cluster({"num_cpus": 1, "num_gpus": 4}, {"num_cpus": 1, "num_gpus": 4})
    told = get(where.gang(4).remote())
    assert [rank for rank, _, _, _ in told] == [0, 1, 2, 3]
    by_node = {}
    for _, node, local, size in told:
        assert size == "2"
        by_node.setdefault(node, []).append(local)
    assert [sorted(locals_) for locals_ in by_node.values()] == [[0, 1], [0, 1]]
    told = get(where.gang(2, topology="node").remote())
    assert len({node for _, node, _, _ in told}) == 1


def test_a_gang_that_loses_a_node_is_placed_again_as_a_whole(new_cluster, get, room):
    cluster = new_cluster({"num_cpus": 1}, {"num_cpus": 1, "num_gpus": 2})
    lost: ClusterNode = cluster.list_all_nodes()[-1]
    cluster.add_node(num_cpus=1, num_gpus=2)
    refs = where.gang(2).remote(room)
    await_true(lambda: len(room.words()) == 2)
    cluster.remove_node(lost, allow_graceful=False)
    fresh = cluster.add_node(num_cpus=1, num_gpus=2)
    await_true(lambda: len(room.words()) >= 3)
    room.say("go")
    told = get(refs)
    assert [rank for rank, _, _, _ in told] == [0, 1]
    nodes = {node for _, node, _, _ in told}
    assert fresh.node_id in nodes
    assert lost.node_id not in nodes
    await_true(none_left)


def test_waiting_and_running_gangs_outlive_the_head(new_cluster, get, room, tmp_path_factory):
    store = tmp_path_factory.mktemp("store") / "head.db"
    cluster = new_cluster({"num_cpus": 1, "num_gpus": 4}, store=f"sqlite:{store}")
    phalanx.create_queue("lab", weight=3)
    running = where.gang(2, queue="lab").remote(room)
    await_true(lambda: len(room.words()) == 2)
    waiting = where.gang(2, queue="lab").remote(room)
    cluster.kill_head()
    cluster.start_head()
    [row] = [queue for queue in phalanx.queues() if queue["name"] == "lab"]
    assert (row["weight"], row["running"], row["pending"]) == (3, 1, 1)
    room.say("go")
    assert [told[0] for told in get([*running, *waiting])] == [0, 1, 0, 1]
    assert len([word for word in room.words() if "@" in word]) == 2
    await_true(none_left)
