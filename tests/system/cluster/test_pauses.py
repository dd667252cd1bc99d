"""Processes are stopped and continued. Messages that others sent in time while a process was
stopped must count as in time.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time

import pytest
from tests.node_parts import fork_server_of
from tests.polling import eventually

import phalanx
from phalanx.runtime.os.process_tree import children_of

LIMITS = {"period_s": 0.5, "misses": 4, "joining_s": 0.0}
"""Settings with which a node that is silent for two seconds is declared dead."""
PAUSED_S = 4.0
GATEWAY = "phalanx-gateway"


@contextlib.contextmanager
def stopped(pid):
    """Stop this process while the block runs."""
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


@phalanx.remote
def nap(seconds):
    """Run for this many seconds. The test does not stop the worker of this task."""
    end = time.monotonic() + seconds
    while (left_s := end - time.monotonic()) > 0:
        time.sleep(left_s)
    return seconds


@phalanx.remote
class Counter:
    def __init__(self):
        self.count = 0

    def add(self):
        self.count += 1
        return self.count


def _named(pid, name):
    """Wait for a child process of this name, as the kernel lists it; return its pid."""

    def find():
        for child in children_of(pid):
            with contextlib.suppress(OSError), open(f"/proc/{child}/comm") as file:
                if file.read().strip() == name:
                    return child
        return None

    return eventually(find, f"{name} below {pid}")


@pytest.fixture
def busy(new_cluster, get, tmp_path, request):
    """Return two nodes with an actor and a job, and a function that checks that both are
    unharmed.
    """
    cluster = new_cluster(2, 2, limits=request.param)
    counter = Counter.remote()
    assert get(counter.add.remote()) == 1
    began, done = tmp_path / "began", tmp_path / "done"
    job = phalanx.submit(
        phalanx.Job(f"echo began >> {began}; until test -e {done}; do sleep 0.1; done", num_cpus=1)
    )
    eventually(began.exists)
    nodes = {node.node_id for node in cluster.list_all_nodes()}

    def check():
        alive = {row["NodeID"]: row["Alive"] for row in phalanx.nodes()}
        assert alive == dict.fromkeys(nodes, True)
        assert get(counter.add.remote()) == 2, "the actor is the same"
        done.touch()
        assert job.wait(120) == "Completed"
        assert began.read_text() == "began\n", "the job ran once"

    return cluster, check


@pytest.mark.parametrize("busy", [LIMITS], indirect=True)
def test_a_head_that_was_stopped_takes_nobody_for_dead(busy, get):
    cluster, check = busy
    for _ in range(2):
        with stopped(cluster.head_pid):
            assert get(nap.remote(PAUSED_S)) == PAUSED_S
    check()


PAUSED = {
    "driver's node": lambda cluster: cluster.list_all_nodes()[0].pid,
    "other node": lambda cluster: cluster.list_all_nodes()[1].pid,
    "gateway of the head": lambda cluster: _named(cluster.head_pid, GATEWAY),
    "gateway of a node": lambda cluster: _named(cluster.list_all_nodes()[0].pid, GATEWAY),
}


@pytest.mark.parametrize("kind", PAUSED)
@pytest.mark.parametrize("busy", [None], indirect=True)
def test_any_process_that_was_stopped_for_a_while_harms_nobody(busy, get, kind):
    cluster, check = busy
    running = nap.options(num_cpus=0).remote(PAUSED_S)
    with stopped(PAUSED[kind](cluster)):
        subprocess.run(["sleep", str(PAUSED_S)], check=True)  # nothing else shows the time
    assert get(running) == PAUSED_S
    check()


def test_a_job_ends_within_its_grace_although_the_fork_server_is_stopped(new_cluster, tmp_path):
    cluster = new_cluster(1)
    (node,) = cluster.list_all_nodes()
    began = tmp_path / "began"
    job = phalanx.submit(phalanx.Job(f"touch {began}; exec sleep 1000", num_cpus=1))
    eventually(began.exists)
    fork_server = fork_server_of(node.pid)
    os.kill(fork_server, signal.SIGSTOP)
    try:
        job.cancel()
        assert job.wait(60) == "Terminated"
    finally:
        os.kill(fork_server, signal.SIGCONT)
    assert eventually(lambda: phalanx.nodes()[0]["Alive"])
    again = phalanx.submit(phalanx.Job("true", num_cpus=1))
    assert again.wait(120) == "Completed"


def test_an_actor_is_killed_and_a_task_starts_although_the_fork_server_is_stopped(new_cluster, get):
    cluster = new_cluster(1)
    (node,) = cluster.list_all_nodes()
    counter = Counter.remote()
    assert get(counter.add.remote()) == 1
    fork_server = fork_server_of(node.pid)
    os.kill(fork_server, signal.SIGSTOP)
    try:
        phalanx.kill(counter)
        assert get(nap.options(num_cpus=1).remote(0)) == 0
    finally:
        os.kill(fork_server, signal.SIGCONT)
