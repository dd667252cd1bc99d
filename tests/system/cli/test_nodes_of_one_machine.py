"""Two nodes on one machine: the second one offers only resources that the first one leaves, and
each node has its own name.
"""

from __future__ import annotations

from tests.polling import eventually


def test_a_second_node_offers_only_what_is_left(machine) -> None:
    address = machine.start_head()
    refused = machine.phalanx("start", "--address", address, "--object-store-memory", "80000000")
    assert refused.returncode == 1
    assert "on the same machine" in refused.stderr and "give --num-cpus" in refused.stderr
    assert len(machine.status()["nodes"]) == 1
    machine.join(address, "second")
    memory = {name: row["total"].get("memory", 0.0) for name, row in machine.nodes().items()}
    assert memory["first"] > 0
    eventually(lambda: not machine.nodes()["second"]["total"].get("memory", 0.0))


def test_a_second_node_of_one_name_is_refused(machine) -> None:
    address = machine.start_head("--node-name", "box")
    small = ("--num-cpus", "1", "--object-store-memory", "80000000")
    refused = machine.phalanx("start", "--address", address, *small, "--node-name", "box")
    assert refused.returncode == 1
    assert "a node called box is in the cluster already" in refused.stderr
    machine.join(address, "other", "--node-name", "other")
