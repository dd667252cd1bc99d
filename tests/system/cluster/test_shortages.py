"""A node that has run out of a resource of its machine starts no commands, and their jobs do not
fail for this reason.
"""

from __future__ import annotations

import resource

from tests.node_parts import fork_server_of
from tests.polling import eventually

import phalanx

SHORT = "commands cannot be started (no process could be started for it: Too many open files)"


def test_a_job_whose_command_cannot_be_started_for_want_of_descriptors_waits(new_cluster):
    cluster = new_cluster(1)
    (node,) = cluster.list_all_nodes()
    first = phalanx.submit(phalanx.Job("true", num_cpus=1))
    assert first.wait(120) == "Completed"
    fork_server = fork_server_of(node.pid)
    _, most = limits = resource.prlimit(fork_server, resource.RLIMIT_NOFILE)
    resource.prlimit(fork_server, resource.RLIMIT_NOFILE, (0, most))
    try:
        job = phalanx.submit(phalanx.Job("true", name="wants", num_cpus=1))
        assert eventually(lambda: SHORT in job.describe().members[0].reason)
        assert job.state == "Pending"
    finally:
        resource.prlimit(fork_server, resource.RLIMIT_NOFILE, limits)
    assert job.wait(120) == "Completed"
    assert job.describe().retries == 0
