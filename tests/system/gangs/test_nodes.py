"""Gangs on several nodes: placed together, and placed again when a node is lost."""

from __future__ import annotations

import os
from typing import Any

import pytest
from tests.polling import PATIENCE_S, eventually
from tests.present import own_gang

import phalanx
from phalanx.cluster_utils import ClusterNode

from .conftest import none_left
from .flow_manifests import flow, state_of, states, template


@phalanx.remote(num_gpus=2, num_cpus=0, max_retries=3)
def where(room=None):
    context = phalanx.get_runtime_context()
    gang = own_gang()
    if room is not None and not room.hears("go"):
        room.say(f"{gang.rank}@{context.get_node_id()}")
        room.wait("go")
    return gang.rank, context.get_node_id(), gang.local_rank, os.environ["LOCAL_WORLD_SIZE"]


def test_a_gang_spans_nodes_and_each_member_knows_its_place_on_its_own(new_cluster, get):
    new_cluster({"num_cpus": 1, "num_gpus": 4}, {"num_cpus": 1, "num_gpus": 4})
    told = get(where.gang(4).remote())
    assert [rank for rank, _, _, _ in told] == [0, 1, 2, 3]
    by_node: dict[Any, Any] = {}
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
    eventually(lambda: len(room.words()) == 2)
    cluster.remove_node(lost, allow_graceful=False)
    fresh = cluster.add_node(num_cpus=1, num_gpus=2)
    eventually(lambda: len(room.words()) >= 3)
    room.say("go")
    told = get(refs)
    assert [rank for rank, _, _, _ in told] == [0, 1]
    nodes = {node for _, node, _, _ in told}
    assert fresh.node_id in nodes
    assert lost.node_id not in nodes
    eventually(none_left)


def test_waiting_and_running_gangs_outlive_the_head(new_cluster, get, room, tmp_path_factory):
    store = tmp_path_factory.mktemp("store") / "head.db"
    cluster = new_cluster({"num_cpus": 1, "num_gpus": 4}, store=f"sqlite:{store}")
    phalanx.create_queue("lab", weight=3)
    running = where.gang(2, queue="lab").remote(room)
    eventually(lambda: len(room.words()) == 2)
    waiting = where.gang(2, queue="lab").remote(room)
    cluster.kill_head()
    cluster.start_head()
    [row] = [queue for queue in phalanx.queues() if queue["name"] == "lab"]
    assert (row["weight"], row["running"], row["pending"]) == (3, 1, 1)
    room.say("go")
    assert [told[0] for told in get([*running, *waiting])] == [0, 1, 0, 1]
    assert len([word for word in room.words() if "@" in word]) == 2
    eventually(none_left)


def hold(room, word):
    """Return shell code that leaves a mark and waits for another one."""
    return f"touch {room.path}/{word}; while [ ! -e {room.path}/go ]; do sleep 0.1; done"


def test_a_job_that_loses_a_node_starts_again_elsewhere_at_no_cost(new_cluster, room):
    cluster = new_cluster({"num_cpus": 0}, {"num_cpus": 2})
    lost: ClusterNode = cluster.list_all_nodes()[-1]
    job = phalanx.submit(phalanx.Job(hold(room, "$PHALANX_NODE-$RANK"), members=2))
    eventually(lambda: len(room.words()) == 2)
    fresh = cluster.add_node(num_cpus=2)
    cluster.remove_node(lost, allow_graceful=False)
    eventually(lambda: len(room.words()) == 4)
    room.say("go")
    assert job.wait(PATIENCE_S) == "Completed"
    told = job.describe()
    assert told["retries"] == 0
    assert {member["node"] for member in told["members"]} == {fresh.node_id}


@pytest.mark.parametrize("policies", [(), ({"event": "Unknown", "action": "TerminateJob"},)])
def test_a_job_of_which_some_run_and_the_others_find_no_room_is_unknown(
    new_cluster, room, policies
):
    nodes = ({"num_cpus": 0}, {"num_cpus": 1}, {"num_cpus": 1})
    cluster = new_cluster(*nodes, limits={"reconnect_s": 0.3})
    manifest = template("half", "sh", "-c", hold(room, "$PHALANX_TASK_INDEX-$PHALANX_ATTEMPT"))
    manifest |= {"kind": "Job", "apiVersion": "batch.volcano.sh/v1alpha1"}
    [task] = manifest["spec"]["tasks"]
    task["replicas"] = 2
    task["template"]["spec"]["containers"][0]["resources"] = {"requests": {"cpu": 1}}
    manifest["spec"]["policies"] = list(policies)
    job = phalanx.submit(manifest)
    eventually(lambda: len(room.words()) == 2)
    cluster.remove_node(cluster.list_all_nodes()[-1], allow_graceful=False)
    if policies:
        assert job.wait(PATIENCE_S) == "Terminated"
        assert "the gang cannot be placed whole" in job.describe()["reason"]
        return

    def phases():
        [row] = [queue for queue in phalanx.queues() if queue["name"] == "default"]
        return row["running"], row["unknown"]

    eventually(lambda: phases() == (0, 1))
    assert job.state == "Pending"
    cluster.add_node(num_cpus=1)
    eventually(lambda: phases() == (1, 0))
    eventually(lambda: len(room.words()) == 3)
    room.say("go")
    assert job.wait(PATIENCE_S) == "Completed"


def test_jobs_outlive_the_head(new_cluster, room, tmp_path_factory):
    store = tmp_path_factory.mktemp("store") / "head.db"
    cluster = new_cluster({"num_cpus": 2}, store=f"sqlite:{store}")
    phalanx.create_queue("lab", weight=3)
    done = phalanx.submit(phalanx.Job("echo done"))
    done.wait(PATIENCE_S)
    running = phalanx.submit(phalanx.Job(f"{hold(room, '$RANK')}; echo end", members=2))
    eventually(lambda: len(room.words()) == 2)
    running.resize(3)  # for which there is no room yet
    waiting = phalanx.submit(phalanx.Job("echo waited", members=2, queue="lab"))
    ending = phalanx.submit(phalanx.Job("true", members=2))
    cluster.kill_head()
    room.say("go")  # the members end while there is no head
    cluster.start_head()
    assert running.wait(PATIENCE_S) == "Completed"
    assert waiting.wait(PATIENCE_S) == "Completed"
    assert ending.wait(PATIENCE_S) == "Completed"
    assert [member["attempt"] for member in running.describe()["members"]] == [1, 1, 1]
    assert [running.logs(1), waiting.logs(0), done.logs()] == ["end\n", "waited\n", "done\n"]
    assert [one["new"] for one in done.describe()["history"]][-1] == "Completed"
    eventually(none_left)


def test_flows_and_cron_jobs_go_on_after_the_head_has_restarted(
    new_cluster, room, tmp_path_factory
):
    store = tmp_path_factory.mktemp("store") / "head.db"
    cluster = new_cluster({"num_cpus": 2}, store=f"sqlite:{store}")
    wait = f"touch {room.path}/there; while [ ! -e {room.path}/go ]; do sleep 0.05; done"
    phalanx.submit_manifests(template("first", "sh", "-c", wait))
    phalanx.submit_manifests(template("second", "true"))
    phalanx.submit_manifests(
        flow({"name": "first"}, {"name": "second", "dependsOn": {"targets": ["first"]}})
    )
    often = template("often", "true")
    spec = {"schedule": "@every 1s", "jobTemplate": {"spec": often["spec"]}}
    phalanx.submit_manifests(
        often | {"kind": "CronJob", "apiVersion": "batch.volcano.sh/v1alpha1", "spec": spec}
    )
    room.wait("there")
    cluster.kill_head()
    cluster.start_head()
    before = {name for name in states() if name.startswith("often")}
    assert (state_of("flows"), state_of("crons")) == ("Running", "Active")
    room.say("go")
    eventually(lambda: state_of("flows") == "Succeed")
    assert states()["flow-second"] == "Completed"
    eventually(
        lambda: {n for n, s in states().items() if "often" in n and s == "Completed"} - before
    )
    phalanx.JobHandle("often").delete()
    phalanx.JobHandle("flow").delete()
    eventually(lambda: none_left() and not phalanx.jobs())
