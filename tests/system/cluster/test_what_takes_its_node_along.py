"""Work that kills the processes of its node: two nodes pay for it, and no third."""

from __future__ import annotations

import os
import signal

import pytest
from tests.polling import eventually

import phalanx
from phalanx import exceptions as errors
from phalanx.cli.cluster_view import status_text
from phalanx.protocol.requests.cluster import GetStatus
from phalanx.runtime.daemons.finding import ask_cluster
from phalanx.util.state import list_events, list_nodes

FORK_SERVER = "its fork server was killed"


def _dead(count):
    """The rows of the dead nodes, once there are so many."""

    def find():
        rows = [row for row in list_nodes() if row.state == "DEAD"]
        return rows if len(rows) >= count else None

    return eventually(find, f"{count} dead nodes")


@pytest.fixture
def cluster(new_cluster):
    """The driver's own node, which takes none of this work, and three that do."""
    made = new_cluster(1)
    for _ in range(3):
        made.add_node(num_cpus=1, resources={"victim": 1})
    return made


@phalanx.remote(num_cpus=0, resources={"victim": 1}, scheduling_strategy="SPREAD")
def kill_parent():
    os.kill(os.getppid(), signal.SIGKILL)
    signal.pause()


@pytest.mark.parametrize("retries", [3, -1])
def test_a_task_that_two_nodes_died_under_is_not_tried_again(cluster, get, retries):
    with pytest.raises(errors.NodeDiedError, match=r"2 nodes died.*kill_parent.*fork server"):
        get(kill_parent.options(max_retries=retries).remote())
    assert all(FORK_SERVER in row.state_message for row in _dead(2))
    assert sum(row["Alive"] for row in phalanx.nodes()) == 2
    whys = [event.why for event in list_events(kinds=["node-lost"])]
    assert len(whys) == 2
    assert all(FORK_SERVER in why for why in whys)
    status = ask_cluster(cluster.address, GetStatus(), 60.0)
    assert sum(FORK_SERVER in said for said in status.lost_nodes) == 2
    assert "all is well" not in status_text(status, "1")


@phalanx.remote(num_cpus=0, resources={"victim": 1}, max_restarts=-1, max_task_retries=-1)
class Killer:
    def kill_parent(self):
        os.kill(os.getppid(), signal.SIGKILL)
        signal.pause()


def test_an_actor_that_two_nodes_died_under_is_dead_however_often_it_may_restart(cluster, get):
    with pytest.raises(errors.ActorDiedError, match=r"2 nodes died.*fork server"):
        get(Killer.remote().kill_parent.remote())
    assert len(_dead(2)) == 2


def test_a_job_that_two_nodes_died_under_is_failed(cluster):
    job = phalanx.submit(
        phalanx.Job("kill -9 $PPID; sleep 1000", num_cpus=1, resources={"victim": 1})
    )
    assert job.wait(120) == "Failed"
    (why,) = [one.reason for one in job.describe().history if one.new == "Failed"]
    assert "2 nodes died" in why
    assert "because one of its own processes was killed there" in why
    assert len(_dead(2)) == 2


def test_a_member_of_a_gang_that_two_nodes_died_under_fails_its_gang(cluster, get):
    with pytest.raises(errors.NodeDiedError, match="2 nodes died"):
        get(kill_parent.options(max_retries=-1, scheduling_strategy=None).gang(1).remote()[0])
    assert len(_dead(2)) == 2


@pytest.mark.parametrize("name", ["TERM", "HUP", "USR1", "QUIT"])
def test_a_node_outlives_what_programs_send_to_their_parent(new_cluster, name):
    new_cluster(1)
    job = phalanx.submit(phalanx.Job(f"kill -{name} $PPID", num_cpus=1))
    assert job.wait(120) == "Completed"
    again = phalanx.submit(phalanx.Job("trap 'exit 0' TERM; kill -TERM $$; exit 1", num_cpus=1))
    assert again.wait(120) == "Completed", "a program has the usual signals"


def test_a_node_that_was_stopped_by_hand_counts_against_nobody(new_cluster, get):
    cluster = new_cluster(1)

    @phalanx.remote(num_cpus=0, resources={"victim": 1}, max_restarts=-1, max_task_retries=-1)
    class Lasting:
        def node(self):
            return phalanx.get_runtime_context().get_node_id()

    victim = cluster.add_node(num_cpus=1, resources={"victim": 1})
    lasting = Lasting.remote()
    for _ in range(3):
        assert get(lasting.node.remote()) == victim.node_id
        cluster.remove_node(victim)
        victim = cluster.add_node(num_cpus=1, resources={"victim": 1})
    assert get(lasting.node.remote()) == victim.node_id
    assert ask_cluster(cluster.address, GetStatus(), 60.0).lost_nodes == []
