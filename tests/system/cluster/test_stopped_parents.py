"""Work that stops its parent process with SIGSTOP: the end of the work is still reported, and its
resources are freed.
"""

from __future__ import annotations

import contextlib
import os
import signal

import pytest
from tests.node_parts import fork_server_of
from tests.polling import eventually

import phalanx
from phalanx import exceptions as errors
from phalanx.runtime.os.process_tree import children_of

STOP = "kill -STOP $PPID"


@pytest.fixture
def cluster(new_cluster):
    """Return a cluster with the driver's own node, and a node for the work. The commands of that
    node end with it or outlive it.
    """

    def make(*, keeps=False):
        cluster = new_cluster(1, limits={"restart_s": 120.0})
        options = {"num_cpus": 1, "resources": {"there": 2}}
        return cluster, lambda: cluster.add_node(node_name="w", keeps_commands=keeps, **options)

    return make


def submit(script, **options):
    return phalanx.submit(phalanx.Job(script, num_cpus=0, resources={"there": 1}, **options))


def all_is_free():
    return phalanx.available_resources().get("there") == 2


@pytest.mark.parametrize("keeps", [False, True])
def test_a_job_that_stops_its_parent_ends_with_its_own_code(cluster, keeps):
    _, start = cluster(keeps=keeps)
    start()
    jobs = [submit(f"{STOP}; exit {code}") for code in (3, 0)]
    assert [job.wait(120) for job in jobs] == ["Failed", "Completed"]
    assert [job.describe().members[0].exit_code for job in jobs] == [3, 0]
    eventually(all_is_free)


@pytest.mark.parametrize("keeps", [False, True])
@pytest.mark.parametrize("ending", ["cancel", "time limit"])
def test_a_job_that_stops_its_parent_again_and_again_can_be_ended(cluster, keeps, ending, tmp_path):
    _, start = cluster(keeps=keeps)
    start()
    began = tmp_path / "began"
    limit = {"time_limit_s": 2.0 if ending == "time limit" else None}
    script = f"trap '' TERM; touch {began}; while :; do {STOP}; sleep 0.02; done"
    job = submit(script, grace_s=0.5, **limit)
    eventually(began.exists)
    if ending == "cancel":
        job.cancel()
    assert job.wait(120) in ("Terminated", "Failed")
    eventually(all_is_free)


def test_a_job_that_stops_its_parent_ends_though_the_fork_server_is_killed(cluster, tmp_path):
    _, start = cluster()
    node = start()
    began, go = tmp_path / "began", tmp_path / "go"
    job = submit(f"touch {began}; until test -e {go}; do sleep 0.05; done; {STOP}; exit 3")
    eventually(began.exists)
    os.kill(fork_server_of(node.pid), signal.SIGKILL)
    go.touch()
    assert job.wait(120) == "Failed"
    assert job.describe().members[0].exit_code == 3
    eventually(all_is_free)


@pytest.mark.parametrize("ending", ["exit", "cancel"])
def test_a_job_that_stops_its_parent_ends_at_the_next_process_of_its_node(
    cluster, ending, tmp_path
):
    made, start = cluster(keeps=True)
    node = start()
    began, go, stopped = (tmp_path / name for name in ("began", "go", "stopped"))
    script = f"touch {began}; until test -e {go}; do sleep 0.05; done; {STOP}; touch {stopped}; "
    job = submit(script + ("exit 3" if ending == "exit" else "sleep 1000"), grace_s=0.5)
    eventually(began.exists)
    made.remove_node(node, allow_graceful=False)
    go.touch()
    eventually(stopped.exists)
    start()
    if ending == "cancel":
        job.cancel()
        assert job.wait(120) == "Terminated"
    else:
        assert job.wait(120) == "Failed"
        assert job.describe().members[0].exit_code == 3
    eventually(all_is_free)


@phalanx.remote(num_cpus=0, resources={"there": 1}, max_retries=0)
def stop_parent_and_end():
    os.kill(os.getppid(), signal.SIGSTOP)
    os._exit(1)


@phalanx.remote(num_cpus=0, resources={"there": 1})
class Stopper:
    def stop(self):
        os.kill(os.getppid(), signal.SIGSTOP)
        return os.getpid()


def test_a_task_that_stops_its_parent_and_ends_leaves_its_place(cluster, get):
    _, start = cluster()
    start()
    with pytest.raises(errors.WorkerCrashedError):
        get(stop_parent_and_end.remote())
    eventually(all_is_free)


def test_an_actor_that_stopped_its_parent_is_killed_and_leaves_its_place(cluster, get):
    _, start = cluster()
    start()
    actor = Stopper.remote()
    pid = get(actor.stop.remote())
    phalanx.kill(actor)
    eventually(all_is_free)
    eventually(lambda: not os.path.exists(f"/proc/{pid}"), "the end of its process")


def test_a_command_whose_parent_is_stopped_as_it_begins_runs_once(cluster, tmp_path):
    _, start = cluster()
    node = start()
    ran = tmp_path / "ran"
    fork_server = fork_server_of(node.pid)
    before = set(children_of(fork_server))

    def new():
        return set(children_of(fork_server)) - before

    job = submit(f"echo ran >> {ran}")
    eventually(lambda: new() or ran.exists())
    for shield in new():
        with contextlib.suppress(ProcessLookupError):
            os.kill(shield, signal.SIGSTOP)
    assert job.wait(120) == "Completed"
    assert ran.read_text() == "ran\n"
    eventually(all_is_free)
