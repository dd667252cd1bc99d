"""`phalanx restart`: the nodes get new processes, and the same jobs continue."""

from __future__ import annotations

import os
import signal

import pytest
from tests.polling import eventually
from tests.ports import own_address
from tests.system.cli.conftest import COMMAND, PATIENCE_S

from phalanx.runtime.daemons.daemon_files import daemons


def node_of(machine):
    (found,) = [one for one in machine.daemons().values() if one.kind == "node"]
    return found


@pytest.mark.parametrize("host", ["127.0.0.1", own_address()], ids=["plain", "tls"])
def test_jobs_go_on_when_the_nodes_of_a_machine_are_restarted(machine, host):
    """`host`: the address of the node. If other machines can reach the node, its session also has
    the gateway's certificate.
    """
    if not host:
        pytest.skip("this machine has no address but loopback")
    machine.start_head("--num-cpus", "2", "--host", host)
    go = os.path.join(machine.home, "go")
    waits = f"echo begins; until [ -e {go} ]; do sleep 0.1; done; echo ends; exit 3"
    machine.done("run", "--detach", "--name", "waits", "--", "sh", "-c", waits)
    eventually(lambda: machine.jobs()["waits"]["state"] == "Running")
    before = node_of(machine)
    assert "goes on as node" in machine.done("restart")
    after = node_of(machine)
    assert after.pid == before.pid
    assert after.node_id != before.node_id
    assert machine.jobs()["waits"]["state"] == "Running"
    open(go, "w").close()
    eventually(lambda: machine.jobs()["waits"]["state"] == "Failed")
    assert machine.done("logs", "waits") == "begins\nends\n"
    assert machine.done("run", "--", "echo", "new") == "new\n"


def test_restarts_in_a_row_each_say_the_new_id_and_keep_the_jobs(machine):
    machine.start_head("--num-cpus", "2")
    go = os.path.join(machine.home, "go")
    waits = f"until [ -e {go} ]; do sleep 0.1; done"
    machine.done("run", "--detach", "--name", "waits", "--", "sh", "-c", waits)
    eventually(lambda: machine.jobs()["waits"]["state"] == "Running")
    for _ in range(4):
        before = node_of(machine)
        said = machine.done("restart")
        after = node_of(machine)
        assert said == f"Node {before.node_id[:12]} goes on as node {after.node_id[:12]}.\n"
        assert after.pid == before.pid
    open(go, "w").close()
    eventually(lambda: machine.jobs()["waits"]["state"] == "Completed")


def test_a_restart_that_is_asked_for_during_another_one_ends_nothing(machine):
    machine.start_head()
    pid = node_of(machine).pid
    several = [machine.begin(COMMAND, "restart") for _ in range(4)]
    for one in several:
        out, err = one.communicate(timeout=PATIENCE_S)
        assert one.returncode == 0, out + err
    assert node_of(machine).pid == pid
    assert machine.done("run", "--", "echo", "new") == "new\n"


def test_an_idle_node_offers_as_much_after_its_restart(machine):
    """The head does not yet know that the node's former process is dead when the next one joins."""
    machine.start_head()
    (before,) = machine.status()["nodes"]
    machine.done("restart")
    machine.done("run", "--", "true")  # the head's first orders have arrived at the node
    after = {row["state"]: row for row in machine.status()["nodes"]}["ALIVE"]
    assert after["node_id"] != before["node_id"]
    assert after["total"]["memory"] == before["total"]["memory"]


def test_the_output_of_finished_jobs_outlives_the_restart_of_an_idle_node(machine):
    machine.start_head()
    assert machine.done("run", "--name", "early", "--", "echo", "kept") == "kept\n"
    machine.done("restart")
    assert machine.done("run", "--", "echo", "new") == "new\n"
    assert "kept" in machine.done("logs", "early")


def test_there_is_no_node_to_restart(machine):
    said = machine.phalanx("restart")
    assert said.returncode == 1
    assert "No node runs on this machine" in said.stdout + said.stderr


def test_the_output_of_finished_jobs_outlives_a_stop_and_a_killed_idle_node(machine):
    address = machine.start_head()
    port = ("--port", address.rpartition(":")[2])
    assert machine.done("run", "--name", "early", "--", "echo", "kept") == "kept\n"
    machine.done("stop")
    machine.done("start", "--head", *port)
    assert machine.done("logs", "early") == "kept\n"
    assert machine.done("run", "--name", "later", "--", "echo", "too") == "too\n"
    os.kill(node_of(machine).pid, signal.SIGKILL)
    eventually(lambda: [one.kind for one in machine.daemons().values()] == ["head"])
    machine.done("start", "--address", address)
    assert machine.done("logs", "early") == "kept\n"
    assert machine.done("logs", "later") == "too\n"
    [disk] = [session.disk for session, one in daemons(machine.root) if one.kind == "node"]
    assert os.path.isdir(disk)
    machine.done("stop", "--forget", "--yes")
    assert not os.path.exists(disk)
