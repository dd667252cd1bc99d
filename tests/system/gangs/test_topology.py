"""Gangs whose members must be close to each other: on one node, or within a declared network
domain.
"""

from __future__ import annotations

from typing import NamedTuple

import pytest
from tests.polling import PATIENCE_S, eventually
from tests.present import own_gang

import phalanx
from phalanx.cluster_utils import Cluster
from phalanx.errors import GangInfeasibleError
from phalanx.protocol.requests.jobs import ListHyperNodes

from .conftest import none_left, rows_of_gangs


def domain(name, tier, tier_name, kind, **selector):
    return {
        "apiVersion": "topology.volcano.sh/v1alpha1",
        "kind": "HyperNode",
        "metadata": {"name": name},
        "spec": {
            "tier": tier,
            "tierName": tier_name,
            "members": [{"type": kind, "selector": selector}],
        },
    }


def listed():
    from phalanx.api.session import engine_or_start

    return {row["name"]: row for row in engine_or_start().ask(ListHyperNodes())}


class Leaves(NamedTuple):
    cluster: Cluster
    leaf_of: dict[str, str]
    """The leaf of each node, by the node's id."""


@pytest.fixture(scope="module")
def leaves(tmp_path_factory):
    """Declare two leaf domains below one spine. Each leaf has two nodes with two GPUs each."""
    store = tmp_path_factory.mktemp("store") / "head.db"
    cluster = Cluster(store=f"sqlite:{store}")
    of = {}
    for leaf in ("a", "a", "b", "b"):
        node = cluster.add_node(num_cpus=2, num_gpus=2, labels={"leaf": leaf})
        of[node.node_id] = leaf
    cluster.connect(namespace="tests")
    cluster.wait_for_nodes(PATIENCE_S)
    for leaf in ("a", "b"):
        labels = {"matchLabels": {"leaf": leaf}}
        phalanx.submit_manifests(domain(f"leaf-{leaf}", 1, "leaf", "Node", labelMatch=labels))
    phalanx.submit_manifests(
        domain("spine", 2, "spine", "HyperNode", regexMatch={"pattern": "^leaf-"})
    )
    yield Leaves(cluster, of)
    cluster.shutdown()


@phalanx.remote(num_gpus=1, num_cpus=0)
def where(room=None, word="there"):
    if room is not None:
        room.say(f"{word}-{own_gang().rank}")
        room.wait("go")
    return phalanx.get_runtime_context().get_node_id()


def test_the_domains_are_known_with_their_nodes(leaves):
    rows = listed()
    assert sorted(leaves.leaf_of[node] for node in rows["leaf-a"]["nodes"]) == ["a", "a"]
    assert len(rows["spine"]["nodes"]) == 4
    assert {rows["leaf-a"]["parent"], rows["leaf-b"]["parent"]} == {"spine"}


@pytest.mark.parametrize(("topology", "size", "most"), [("node", 2, 1), ("leaf", 4, 2)])
def test_a_gang_is_within_one_domain_although_others_are_fuller(
    leaves, get, room, topology, size, most
):
    # One GPU is taken: packing alone would put the gang beside it, and partly elsewhere.
    taken = where.gang(1).remote(room)
    room.wait("there-0")
    nodes = get(where.gang(size, topology=topology).remote())
    assert len(set(nodes)) <= most
    assert len({leaves.leaf_of[node] for node in nodes}) == 1
    room.say("go")
    assert leaves.leaf_of[nodes[0]] != leaves.leaf_of[get(taken)[0]] or topology == "node"


def test_a_gang_waits_while_its_domains_have_no_room_although_the_cluster_has(leaves, get, room):
    blockers = [where.gang(1, topology="node").remote(room, "a")]
    room.wait("a-0")
    big = where.gang(4, topology="leaf").remote(room, "big")  # takes the other leaf
    room.wait("big-3")
    waits = where.gang(4, topology="leaf").remote()
    free = where.gang(3).remote()  # for which the three GPUs that are left do
    assert len(set(get(free))) == 2
    phases = {row["name"]: row["phase"] for row in rows_of_gangs()}
    assert phases[waits.name] == "pending"
    room.say("go")
    get([*big, *blockers[0]])
    assert len({leaves.leaf_of[node] for node in get(waits)}) == 1


@pytest.mark.parametrize(
    ("topology", "size", "error", "words"),
    [
        ("node", 3, GangInfeasibleError, "never have more than 2 here"),
        ("leaf", 5, GangInfeasibleError, "6 domains whose nodes are close enough hold no more"),
        ("spine", 9, GangInfeasibleError, "never have more than 8 here"),
        ("rack", 2, ValueError, "'node', 'nvlink', 'leaf', 'spine', not 'rack'"),
    ],
)
def test_what_no_domain_could_hold_is_refused(leaves, topology, size, error, words):
    with pytest.raises(error, match=words):
        where.gang(size, topology=topology).remote()


def job(name, replicas, **topology):
    container = {
        "name": "c",
        "command": ["sleep", "0.01"],
        "resources": {"limits": {"nvidia.com/gpu": 1}},
    }
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {
            "networkTopology": topology,
            "tasks": [
                {
                    "name": "main",
                    "replicas": replicas,
                    "template": {"spec": {"containers": [container]}},
                }
            ],
        },
    }


@pytest.mark.parametrize(
    ("topology", "leaves_used"),
    [
        ({"mode": "hard", "highestTierAllowed": 1}, 1),
        ({"mode": "hard", "highestTierName": "leaf"}, 1),
    ],
)
def test_the_network_topology_of_a_manifest_holds(leaves, topology, leaves_used):
    handle = phalanx.submit(job("close", 4, **topology))
    assert handle.wait(PATIENCE_S) == "Completed"
    nodes = {member["node"] for member in handle.describe()["members"]}
    assert len({leaves.leaf_of[node] for node in nodes}) == leaves_used
    handle.delete()
    eventually(none_left)


def test_a_manifest_that_no_allowed_domain_could_hold_is_refused(leaves):
    with pytest.raises(GangInfeasibleError, match="never have more than 4"):
        phalanx.submit(job("far", 5, mode="hard", highestTierAllowed=1))
    with pytest.raises(ValueError, match="no domain is of tier 'moon'"):
        phalanx.submit(job("far", 1, mode="hard", highestTierName="moon"))


def test_domains_outlive_the_head_and_are_deleted(leaves):
    leaves.cluster.kill_head()
    leaves.cluster.start_head()
    eventually(lambda: len(listed().get("spine", {}).get("nodes", ())) == 4)
    phalanx.JobHandle("spine").delete()
    assert "spine" not in listed()
