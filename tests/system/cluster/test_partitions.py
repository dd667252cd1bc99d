"""Machines in network namespaces: one is disconnected and connected again, one is slow."""

from __future__ import annotations

import pytest
from tests.system.cluster.network import Network, why_no_hosts

LIMITS = {"period_s": 0.5, "misses": 6}
"""Settings with which a node that is silent for three seconds is declared dead."""


@pytest.fixture
def network():
    if reason := why_no_hosts():
        pytest.skip(reason)
    made = Network()
    yield made
    for host in made.hosts:
        print(host.logs())
    made.close()


def test_one_host_cut_off_and_healed_and_one_slow(network, tmp_path):
    first, cut, slow = (network.add_host() for _ in range(3))
    slow.slow_down("4mbit")
    head = first.start("head", host=first.address, limits=LIMITS)["address"]
    amounts = {"CPU": 2.0, "memory": 1e9, "object_store_memory": 2e8}

    def start_node(host, **more):
        options = {"resources": {**amounts, **more}, "object_store_bytes": 200_000_000}
        return host.start("node", head=head, host=host.address, **options)["node_id"]

    start_node(first)
    cut_id = start_node(cut, cut=1.0)
    start_node(slow)
    marks = tmp_path / "marks"
    marks.mkdir()
    job = first.popen("partition_job.py", head, str(first.directory / "r"), cut_id, str(marks))

    for word in ("blink", "cut", "heal", "done"):
        assert job.stdout.readline().strip() == word
        if word == "blink":
            cut.cut()
            cut.heal()
        elif word == "cut":
            cut.cut()
        elif word == "heal":
            cut.heal()
        job.stdin.write("go\n")
        job.stdin.flush()
    assert job.wait(60) == 0
