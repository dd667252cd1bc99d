"""A node's processes are killed and started again repeatedly while jobs and an array run. Each job
and array task must end once, as if none had been killed.
"""

from __future__ import annotations

import os
import random
import signal

import pytest
from tests.node_parts import fork_server_of
from tests.polling import eventually
from tests.system.cluster.conftest import new_cluster  # noqa: F401

import phalanx

KILLS = int(os.environ.get("PHALANX_NODE_RESTARTS", "20"))
JOBS, TASKS, LINES = 20, 60, 500


def kill_node(cluster, node):
    os.kill(node.pid, signal.SIGKILL)
    node.daemon.process.wait()
    cluster.worker_nodes.discard(node)


def kill_all(cluster, node):
    cluster.remove_node(node, allow_graceful=False)


def kill_fork_server_first(cluster, node):
    os.kill(fork_server_of(node.pid), signal.SIGKILL)
    kill_node(cluster, node)


def submit(script, **options):
    return phalanx.submit(phalanx.Job(script, num_cpus=0, resources={"there": 1}, **options))


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_every_job_ends_once_though_its_node_is_killed_twenty_times(
    new_cluster,  # noqa: F811
    tmp_path,
):
    cluster = new_cluster(1, limits={"restart_s": 120.0})
    rng = random.Random(11)

    def start():
        return cluster.add_node(
            num_cpus=1, resources={"there": JOBS + 4}, node_name="kept", keeps_commands=True
        )

    node = start()
    jobs = [
        submit(
            f"echo begins >> {tmp_path}/begun{n}; seq 1 {LINES}; "
            f"until test -e {tmp_path}/{n}; do sleep 0.1; done; echo of {n}; exit {n % 5}"
        )
        for n in range(JOBS)
    ]
    begun = [tmp_path / f"begun{n}" for n in range(JOBS)]
    eventually(lambda: all(path.exists() for path in begun), "all jobs")
    tasks = submit(
        f"echo begins >> {tmp_path}/task$PHALANX_ARRAY_INDEX; sleep 0.5", array=f"0-{TASKS - 1}"
    )
    for killed in range(KILLS):
        rng.choice((kill_node, kill_all, kill_fork_server_first))(cluster, node)
        if killed < JOBS:
            (tmp_path / str(killed)).touch()  # it ends while there is no node, most likely
        node = start()
        assert jobs[-1].state == "Running" or killed >= JOBS - 1
    for n, job in enumerate(jobs):
        (tmp_path / str(n)).touch()
        assert job.wait(120) == ("Failed" if n % 5 else "Completed")
        (member,) = job.describe().members
        assert (member.exit_code, member.attempt) == (n % 5, 1)
        assert begun[n].read_text() == "begins\n"
        whole = [*(str(line) for line in range(1, LINES + 1)), f"of {n}"]
        assert job.logs().splitlines() == whole, job.logs()[-300:]
    assert tasks.wait(240) == "Completed"
    assert [n for n in range(TASKS) if (tmp_path / f"task{n}").read_text() != "begins\n"] == []
