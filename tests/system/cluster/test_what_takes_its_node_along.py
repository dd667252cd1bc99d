"""Work that kills the processes of its node: this work must end, and at most two nodes may be
lost.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from tests.node_parts import name_of
from tests.polling import eventually

import phalanx
from phalanx import exceptions as errors
from phalanx.cli.cluster_view import status_text
from phalanx.protocol.requests.cluster import GetStatus
from phalanx.runtime.daemons.finding import ask_cluster
from phalanx.runtime.os import process_names
from phalanx.util.state import list_events, list_nodes

PARENT = "its parent process was killed, most likely by itself"


def _dead(count):
    """Wait for this many dead nodes; return their rows."""

    def find():
        rows = [row for row in list_nodes() if row.state == "DEAD"]
        return rows if len(rows) >= count else None

    return eventually(find, f"{count} dead nodes")


def _all_live(cluster):
    return all(row["Alive"] for row in phalanx.nodes()) and not list_events(kinds=["node-lost"])


@pytest.fixture
def cluster(new_cluster):
    """Return a cluster with the driver's own node, on which this work does not run, and three nodes
    on which it does.
    """
    made = new_cluster(1)
    for _ in range(3):
        made.add_node(num_cpus=1, resources={"victim": 1})
    return made


@pytest.fixture
def small(new_cluster):
    """Return a cluster with the driver's own node, and one more on which killers and neighbours fit
    together.
    """
    made = new_cluster(1)
    made.add_node(num_cpus=1, resources={"victim": 3})
    return made


@phalanx.remote(num_cpus=0, resources={"victim": 1}, max_restarts=0)
class Neighbour:
    def __init__(self):
        self.calls = 0

    def call(self):
        self.calls += 1
        return self.calls


@phalanx.remote(num_cpus=0, resources={"victim": 1}, scheduling_strategy="SPREAD")
def kill_parent():
    os.kill(os.getppid(), signal.SIGKILL)
    signal.pause()


@pytest.mark.parametrize("retries", [3, -1])
def test_a_task_that_kills_its_parent_twice_is_stopped_and_its_neighbours_go_on(
    small, get, retries
):
    neighbour = Neighbour.remote()
    assert get(neighbour.call.remote()) == 1
    with pytest.raises(errors.WorkerCrashedError, match=rf"kill_parent.*poisons.*{PARENT}"):
        get(kill_parent.options(max_retries=retries).remote())
    assert get(neighbour.call.remote()) == 2
    assert _all_live(small)


def test_a_task_without_retries_hears_at_once_what_it_did(small, get):
    with pytest.raises(errors.WorkerCrashedError, match=PARENT):
        get(kill_parent.options(max_retries=0).remote())
    assert _all_live(small)


@phalanx.remote(num_cpus=0, resources={"victim": 1}, max_restarts=-1, max_task_retries=-1)
class Killer:
    def kill_parent(self):
        os.kill(os.getppid(), signal.SIGKILL)
        signal.pause()


def test_an_actor_that_kills_its_parent_twice_is_dead_however_often_it_may_restart(small, get):
    neighbour = Neighbour.remote()
    assert get(neighbour.call.remote()) == 1
    with pytest.raises(errors.ActorDiedError, match=r"poisons its nodes.*parent process was"):
        get(Killer.remote().kill_parent.remote())
    assert get(neighbour.call.remote()) == 2
    assert _all_live(small)


def test_a_job_that_kills_its_parent_fails_and_its_neighbours_go_on(small, tmp_path):
    beside = phalanx.submit(
        phalanx.Job(f"until test -e {tmp_path}/over; do sleep 0.1; done; exit 3",
                    num_cpus=0, resources={"victim": 1})
    )  # fmt: skip
    eventually(lambda: beside.state == "Running")
    killer = phalanx.Job("kill -9 $PPID; sleep 1000", num_cpus=0, resources={"victim": 1})
    job = phalanx.submit(killer)
    assert job.wait(120) == "Failed"
    assert PARENT in job.describe().members[0].reason
    (tmp_path / "over").touch()
    assert beside.wait(120) == "Failed"
    assert beside.describe().members[0].reason == "exit code 3"
    assert _all_live(small)


def test_a_job_that_kills_its_parent_twice_is_stopped_whatever_restarts_it_has(small):
    job = phalanx.submit(
        phalanx.Job("kill -9 $PPID; sleep 1000", num_cpus=0, resources={"victim": 1},
                    max_retries=100)
    )  # fmt: skip
    assert job.wait(120) == "Failed"
    (why,) = [one.reason for one in job.describe().history if one.new == "Failed"]
    assert "has taken its node or its parent process along 2 times" in why
    assert "it poisons its nodes" in why
    assert _all_live(small)


def test_a_member_of_a_gang_that_kills_its_parent_fails_its_gang(small, get):
    with pytest.raises(errors.WorkerCrashedError, match=PARENT):
        get(kill_parent.options(max_retries=-1, scheduling_strategy=None).gang(1).remote()[0])
    assert _all_live(small)


def node_above():
    """Return the pid of the node's own process."""
    found = os.getppid()
    while Path(f"/proc/{found}/comm").read_text().strip() != "phalanx-node":
        found = int(Path(f"/proc/{found}/stat").read_text().rpartition(")")[2].split()[1])
    return found


@phalanx.remote(num_cpus=0, resources={"victim": 1}, scheduling_strategy="SPREAD", max_retries=3)
def kill_node():
    os.kill(node_above(), signal.SIGKILL)
    signal.pause()


def test_a_task_that_two_nodes_died_under_is_not_tried_again(cluster, get):
    with pytest.raises(errors.NodeDiedError, match=r"2 nodes died.*kill_node"):
        get(kill_node.remote())
    assert len(_dead(2)) == 2
    assert sum(row["Alive"] for row in phalanx.nodes()) == 2
    whys = [event.why for event in list_events(kinds=["node-lost"])]
    status = ask_cluster(cluster.address, GetStatus(), 60.0)
    assert len(whys) == len(status.lost_nodes) == 2
    assert "all is well" not in status_text(status, "1")


@phalanx.remote(num_cpus=0, resources={"victim": 1}, max_restarts=9, max_task_retries=-1)
class NodeKiller:
    def kill_node(self):
        os.kill(node_above(), signal.SIGKILL)
        signal.pause()


def test_an_actor_that_two_nodes_died_under_is_dead_however_often_it_may_restart(cluster, get):
    with pytest.raises(errors.ActorDiedError, match="2 nodes died"):
        get(NodeKiller.remote().kill_node.remote())
    assert len(_dead(2)) == 2


def test_a_job_that_two_nodes_died_under_is_failed(cluster):
    climb = """
pid=$PPID
until test "$(cat /proc/$pid/comm)" = phalanx-node; do pid=$(cut -d' ' -f4 /proc/$pid/stat); done
kill -9 $pid
sleep 1000
"""
    job = phalanx.submit(phalanx.Job(climb, num_cpus=1, resources={"victim": 1}))
    assert job.wait(120) == "Failed"
    (why,) = [one.reason for one in job.describe().history if one.new == "Failed"]
    assert "2 nodes died" in why
    assert len(_dead(2)) == 2


@pytest.mark.parametrize("name", ["TERM", "HUP", "USR1", "QUIT"])
def test_a_node_outlives_what_programs_send_to_their_parent(new_cluster, name):
    new_cluster(1)
    job = phalanx.submit(phalanx.Job(f"kill -{name} $PPID", num_cpus=1))
    assert job.wait(120) == "Completed"
    again = phalanx.submit(phalanx.Job("trap 'exit 0' TERM; kill -TERM $$; exit 1", num_cpus=1))
    assert again.wait(120) == "Completed", "a program has the usual signals"


def test_the_processes_of_a_cluster_have_names_that_killing_pythons_does_not_find(new_cluster, get):
    cluster = new_cluster(1)

    @phalanx.remote
    def names():
        return os.getpid(), os.getppid()

    worker, shield = get(names.remote())
    (node,) = cluster.list_all_nodes()
    named = {
        cluster.head_pid: process_names.HEAD,
        node.pid: process_names.NODE,
        worker: process_names.WORKER,
        shield: process_names.SHIELD,
    }
    assert {pid: name_of(pid).encode() for pid in named} == named


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
