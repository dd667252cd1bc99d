"""Helpers of a node or head are killed: they are started again, and the work goes on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest
from tests.node_parts import fork_server_of, gateway_of
from tests.polling import eventually
from tests.system.chaos.footprint import is_running
from tests.system.gangs.test_descendants import DAEMON

import phalanx
from phalanx.protocol.requests.cluster import GetStatus
from phalanx.runtime.daemons.finding import ask_cluster
from phalanx.util.state import list_events

FORK_SERVER = "its fork server was killed and is started again"


@pytest.fixture
def cluster(new_cluster):
    """Return a cluster with the driver's own node, and a second node that does the work."""
    made = new_cluster(1)
    made.add_node(num_cpus=2, resources={"there": 8})
    return made


def kill(pid):
    os.kill(pid, signal.SIGKILL)


def kill_fork_server(node):
    """Kill the fork server of a node. Returns when another one runs."""
    before = fork_server_of(node.pid)
    kill(before)
    eventually(lambda: fork_server_of(node.pid) != before, "another fork server")


def kill_gateway(daemon, number=signal.SIGKILL):
    before = gateway_of(daemon)
    os.kill(before, number)
    eventually(lambda: gateway_of(daemon) != before, "another gateway")


@phalanx.remote(num_cpus=0, resources={"there": 1}, max_restarts=0)
class Counter:
    def __init__(self):
        self.count = 0

    def add(self):
        self.count += 1
        return self.count

    def start_daemon(self, path):
        subprocess.run([sys.executable, "-c", DAEMON, path, "0"], check=True)

    def end(self):
        os._exit(5)


@phalanx.remote(num_cpus=0, resources={"there": 1}, max_retries=0)
def wait_for(path):
    import time

    while not os.path.exists(path):
        time.sleep(0.05)
    print("the file was found", flush=True)
    return path


def command(script, **options):
    return phalanx.submit(phalanx.Job(script, num_cpus=0, resources={"there": 1}, **options))


def until(path):
    return f"until test -e {path}; do sleep 0.05; done"


def test_what_a_fork_server_has_started_outlives_it(cluster, get, tmp_path, capfd):
    node = cluster.list_all_nodes()[1]
    sign, daemon = tmp_path / "sign", tmp_path / "daemon"
    counter, task = Counter.remote(), wait_for.remote(str(sign))
    assert get(counter.add.remote()) == 1
    get(counter.start_daemon.remote(str(daemon)))
    left = int(eventually(lambda: daemon.exists() and daemon.read_text()))
    job = command(f"{until(sign)}; echo goes on; exit 7")
    eventually(lambda: job.state == "Running")
    for _ in range(2):
        kill_fork_server(node)
        assert get(counter.add.remote()) > 1
    assert get(Counter.remote().add.remote()) == 1, "new workers start"
    assert command("true").wait(120) == "Completed", "and new commands do"
    sign.touch()
    assert get(task) == str(sign)
    assert job.wait(120) == "Failed"
    assert job.describe().members[0].exit_code == 7
    assert "goes on" in job.logs()
    assert eventually(lambda: "the file was found" in capfd.readouterr().out), "its output is read"
    assert is_running(left)
    with pytest.raises(phalanx.exceptions.ActorDiedError, match="exit code 5"):
        get(counter.end.remote())
    eventually(lambda: not is_running(left), "the end of what the actor has left behind")
    assert all(row["Alive"] for row in phalanx.nodes())
    whys = [event.why for event in list_events(kinds=["part-killed"])]
    assert len(whys) == 2
    assert all(FORK_SERVER in why for why in whys)
    status = ask_cluster(cluster.address, GetStatus(), 60.0)
    assert sum(FORK_SERVER in said for said in status.lost_nodes) == 2


def test_a_command_that_outlives_its_fork_server_is_cancelled_within_its_grace(cluster, tmp_path):
    node = cluster.list_all_nodes()[1]
    daemon, done = tmp_path / "daemon", tmp_path / "done"
    job = command(
        f"trap 'touch {done}; exit 0' TERM; '{sys.executable}' -c '{DAEMON}' {daemon} 0;"
        "while :; do sleep 0.05; done"
    )
    eventually(daemon.exists, "the daemon")
    kill_fork_server(node)
    job.cancel()
    assert job.wait(120) == "Terminated"
    assert done.exists()
    left = int(daemon.read_text())
    eventually(lambda: not is_running(left), "the daemon's end")


def test_a_task_that_outlives_its_fork_server_is_killed_when_it_is_cancelled(
    cluster, get, tmp_path
):
    node = cluster.list_all_nodes()[1]
    pid = tmp_path / "pid"

    @phalanx.remote(num_cpus=0, resources={"there": 1}, max_retries=0)
    def hang():
        pid.write_text(str(os.getpid()))
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        signal.pause()

    task = hang.remote()
    worker = int(eventually(lambda: pid.exists() and pid.read_text()))
    kill_fork_server(node)
    phalanx.cancel(task, force=True)
    eventually(lambda: not is_running(worker), "the worker's end")
    with pytest.raises(phalanx.exceptions.TaskCancelledError):
        get(task)


def test_work_ends_with_its_node_though_their_fork_server_is_killed_first(cluster, get, tmp_path):
    node = cluster.list_all_nodes()[1]
    pid = tmp_path / "pid"
    command(f"echo $$ > {pid}.new; mv {pid}.new {pid}; exec sleep 1000")
    started = int(eventually(lambda: pid.exists() and pid.read_text()))
    server = fork_server_of(node.pid)
    os.kill(node.pid, signal.SIGSTOP)
    kill(server)
    kill(node.pid)
    eventually(lambda: not is_running(started), "the command's end")


def test_a_node_whose_gateway_is_killed_goes_on(cluster, get):
    counter = Counter.remote()
    assert get(counter.add.remote()) == 1
    before = [(row["NodeID"], row["NodeManagerPort"]) for row in phalanx.nodes()]
    for node in cluster.list_all_nodes():
        kill_gateway(node.pid)
    assert get(counter.add.remote()) == 2
    assert get(Counter.remote().add.remote()) == 1
    large = get(phalanx.remote(num_cpus=0, resources={"there": 1})(lambda: bytes(5 << 20)).remote())
    assert len(large) == 5 << 20
    assert [(row["NodeID"], row["NodeManagerPort"]) for row in phalanx.nodes()] == before
    assert all(row["Alive"] for row in phalanx.nodes())
    assert len(eventually(lambda: list_events(kinds=["part-killed"]))) == 2


def test_an_event_says_which_signal_has_ended_a_gateway(cluster):
    node = cluster.list_all_nodes()[1]
    kill_gateway(node.pid, signal.SIGABRT)
    (event,) = eventually(lambda: list_events(kinds=["part-killed"]))
    assert "its gateway was ended by SIGABRT and is started again" in event.why


def test_a_head_whose_gateway_is_killed_goes_on(cluster, get):
    counter = Counter.remote()
    assert get(counter.add.remote()) == 1
    kill_gateway(cluster.head_pid)
    assert get(counter.add.remote()) == 2
    assert command("true").wait(120) == "Completed"
    assert ask_cluster(cluster.address, GetStatus(), 60.0).address == cluster.address
    assert all(row["Alive"] for row in phalanx.nodes())
