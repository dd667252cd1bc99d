"""Commands of jobs go on when their node's process is killed, and the next process finds them."""

from __future__ import annotations

import os
import signal

import pytest
from tests.polling import eventually
from tests.system.chaos.footprint import is_running

import phalanx


@pytest.fixture
def kept(new_cluster):
    """Return a cluster with the driver's own node, and a function that starts a node whose commands
    outlive it. The function also starts that node's next process.
    """
    cluster = new_cluster(1, limits={"restart_s": 120.0})
    options = {"num_cpus": 4, "num_gpus": 2, "resources": {"there": 32}}

    def start():
        return cluster.add_node(node_name="kept", keeps_commands=True, **options)

    return cluster, start


def submit(script, **options):
    return phalanx.submit(phalanx.Job(script, num_cpus=0, resources={"there": 1}, **options))


def until(path):
    return f"until test -e {path}; do sleep 0.05; done"


def is_over(job):
    return job.state in ("Completed", "Failed")


def kill(cluster, node):
    """Kill the node and all processes of its process group, as the kernel does when memory is
    short.
    """
    cluster.remove_node(node, allow_graceful=False)


def only_member(job):
    (member,) = job.describe().members
    return member


@pytest.mark.parametrize("kills", [4, pytest.param(20, marks=pytest.mark.slow)])
def test_jobs_end_once_with_their_own_codes_though_their_node_is_killed_again_and_again(
    kept, tmp_path, kills
):
    cluster, start = kept
    node = start()
    jobs = [
        submit(
            f"echo begins >> {tmp_path}/begun{n}; seq 1 200; {until(tmp_path / str(n))}; "
            f"echo of {n}; exit {n}"
        )
        for n in range(kills + 1)
    ]
    eventually(lambda: all(job.state == "Running" for job in jobs), "all jobs")
    for killed in range(kills):
        kill(cluster, node)
        node = start()
        assert jobs[0].state == "Running"
        (tmp_path / str(killed + 1)).touch()
        job = jobs[killed + 1]
        assert job.wait(120) == "Failed"
    (tmp_path / "0").touch()
    assert jobs[0].wait(120) == "Completed"
    for n, job in enumerate(jobs):
        member = only_member(job)
        assert (member.exit_code, member.attempt) == (n, 1)
        assert (tmp_path / f"begun{n}").read_text() == "begins\n"
        lines = [str(line) for line in range(1, 201)]
        assert job.logs().splitlines() == [*lines, f"of {n}"]


def test_a_job_that_ended_while_its_node_was_away_has_its_true_exit_code(kept, tmp_path):
    cluster, start = kept
    node = start()
    begun, go, done = tmp_path / "begun", tmp_path / "go", tmp_path / "done"
    job = submit(f"touch {begun}; {until(go)}; echo whole; touch {done}; exit 41")
    eventually(begun.exists)
    kill(cluster, node)
    go.touch()
    eventually(done.exists)
    start()
    assert job.wait(120) == "Failed"
    assert (only_member(job).exit_code, only_member(job).attempt) == (41, 1)
    assert job.logs() == "whole\n"


def test_work_that_was_given_away_is_ended_when_its_node_is_back(new_cluster, tmp_path):
    cluster = new_cluster(1, limits={"restart_s": 0.1})
    options = {"num_cpus": 4, "resources": {"there": 1}}
    first = cluster.add_node(node_name="first", keeps_commands=True, **options)
    go, pids = tmp_path / "go", tmp_path / "pids"
    job = submit(f"echo $$ >> {pids}; {until(go)}; echo done by $PHALANX_NODE; exit 0")
    eventually(lambda: job.state == "Running" and pids.exists())
    kill(cluster, first)
    cluster.add_node(node_name="second", **options)
    eventually(lambda: len(pids.read_text().split()) == 2, "the second start")
    begun = pids.read_text().split()
    assert is_running(int(begun[0]))  # no node of its head can end it
    cluster.add_node(node_name="first", keeps_commands=True, **options)
    eventually(lambda: not is_running(int(begun[0])), "the end of the old copy")
    assert is_running(int(begun[1]))
    go.touch()
    assert job.wait(120) == "Completed"
    assert len(job.logs().splitlines()) == 1
    assert only_member(job).attempt == 2


def test_a_job_that_had_not_begun_begins_once_at_the_next_process_of_its_node(kept, tmp_path):
    cluster, start = kept
    node = start()
    job = submit(f"echo begins >> {tmp_path}/begun; exit 6")
    eventually(lambda: job.state != "Pending")
    kill(cluster, node)
    start()
    assert job.wait(120) == "Failed"
    assert (only_member(job).exit_code, only_member(job).attempt) == (6, 1)
    assert (tmp_path / "begun").read_text() == "begins\n"


def test_a_node_that_is_asked_to_goes_on_as_another_process_with_its_jobs(kept, tmp_path):
    _, start = kept
    node = start()
    go = tmp_path / "go"
    job = submit(f"{until(go)}; exit 3")
    eventually(lambda: job.state == "Running")
    before = {row["NodeID"] for row in phalanx.nodes()}
    os.kill(node.daemon.process.pid, signal.SIGHUP)
    eventually(lambda: [r for r in phalanx.nodes() if r["Alive"] and r["NodeID"] not in before])
    assert node.daemon.process.poll() is None
    go.touch()
    assert job.wait(120) == "Failed"
    assert (only_member(job).exit_code, only_member(job).attempt) == (3, 1)


@pytest.mark.parametrize("how", ["cancel", "limit"])
def test_an_end_by_others_reaches_a_job_that_outlived_its_node(kept, tmp_path, how):
    cluster, start = kept
    node = start()
    pids = tmp_path / "pids"
    limit = {"time_limit_s": 6.0} if how == "limit" else {}
    job = submit(f"setsid sleep 1000 & echo $$ $! > {pids}; sleep 1000", **limit)
    started = eventually(lambda: pids.exists() and pids.read_text().split())
    kill(cluster, node)
    start()
    if how == "cancel":
        job.cancel()
    job.wait(120)
    assert [pid for pid in started if is_running(int(pid))] == []
    assert only_member(job).attempt == 1


def test_a_job_keeps_its_devices_at_the_next_process_of_its_node(kept, tmp_path):
    cluster, start = kept
    node = start()
    go = tmp_path / "go"
    script = f"echo $CUDA_VISIBLE_DEVICES; {until(go)}"

    def of_one_gpu():
        return phalanx.submit(phalanx.Job(script, num_cpus=0, num_gpus=1, resources={"there": 1}))

    first = of_one_gpu()
    eventually(lambda: first.state == "Running")
    kill(cluster, node)
    start()
    second = of_one_gpu()
    eventually(lambda: second.state == "Running")
    go.touch()
    assert [job.wait(120) for job in (first, second)] == ["Completed"] * 2
    assert sorted(job.logs() for job in (first, second)) == ["0\n", "1\n"]


def test_an_ordinary_stop_of_a_node_ends_its_commands(kept, tmp_path):
    cluster, start = kept
    node = start()
    pids = tmp_path / "pids"
    submit(f"echo $$ > {pids}; sleep 1000")
    pid = int(eventually(lambda: pids.exists() and pids.read_text()))
    cluster.remove_node(node)
    eventually(lambda: not is_running(pid), "the end of the command")
