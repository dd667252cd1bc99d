"""Fork servers and gateways are killed repeatedly while jobs run. Each job must end as if none had
been killed.
"""

from __future__ import annotations

import os
import random
import signal

import pytest
from tests.node_parts import fork_server_of, gateway_of
from tests.polling import eventually
from tests.system.cluster.conftest import new_cluster  # noqa: F401

import phalanx
from phalanx.util.state import list_events

KILLS, JOBS = 20, 20


def kill_part(find, node):
    """Kill a helper process of a node, which `find` returns. Wait until its replacement runs."""
    pid = find(node)
    os.kill(pid, signal.SIGKILL)
    eventually(lambda: find(node) != pid, "the next one")


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_twenty_jobs_end_as_they_would_have_though_parts_are_killed_twenty_times(
    new_cluster,  # noqa: F811
    tmp_path,
):
    cluster = new_cluster(1)
    nodes = [cluster.add_node(num_cpus=1, resources={"there": 16}) for _ in range(3)]
    rng = random.Random(7)
    sign = tmp_path / "sign"
    jobs = [
        phalanx.submit(
            phalanx.Job(
                f"until test -e {sign}; do sleep 0.1; done; echo of {number}; exit {number % 3}",
                num_cpus=0,
                resources={"there": 1},
            )
        )
        for number in range(JOBS)
    ]
    eventually(lambda: all(job.state == "Running" for job in jobs), "all jobs")
    for kill in range(KILLS):
        node = nodes[kill % len(nodes)]
        find = rng.choice((fork_server_of, gateway_of))
        kill_part(find, node.pid)
        short = phalanx.Job("exit 4", num_cpus=0, resources={"there": 1})
        job = phalanx.submit(short)
        assert job.wait(120) == "Failed"
        assert job.describe().members[0].exit_code == 4
    sign.touch()
    for number, job in enumerate(jobs):
        assert job.wait(120) == ("Failed" if number % 3 else "Completed")
        (member,) = job.describe().members
        assert member.exit_code == number % 3
        assert job.logs() == f"of {number}\n"
    assert all(row["Alive"] for row in phalanx.nodes())
    assert len(eventually(lambda: list_events(kinds=["part-killed"]))) == KILLS
