"""Nodes that somebody has named."""

from __future__ import annotations

import subprocess
import sys

import pytest
from tests.polling import eventually

import phalanx
from phalanx.util import state


def test_a_node_is_listed_by_its_name(new_cluster):
    cluster = new_cluster()
    cluster.add_node(num_cpus=1, node_name="first")
    named = cluster.add_node(num_cpus=1, node_name="box-2")
    cluster.connect()
    rows = {row.node_id: row.node_name for row in state.list_nodes()}
    assert rows[named.node_id] == "box-2"
    assert {row["NodeName"] for row in phalanx.nodes()} == {"first", "box-2"}
    with pytest.raises(ValueError, match="'a b' is no valid node name"):
        cluster.add_node(node_name="a b")
    cluster.remove_node(named)

    def gone():
        (row,) = state.list_nodes(filters=[("node_id", "=", named.node_id)])
        return row if row.state == "DEAD" else None

    row = eventually(gone)
    assert row.node_name == "box-2"
    assert row.state_message == "Expected termination: received SIGTERM"


def test_a_command_takes_a_node_by_its_name(new_cluster):
    cluster = new_cluster(1)
    named = cluster.add_node(num_cpus=1, node_name="box-2")

    def run(*arguments):
        command = [sys.executable, "-m", "phalanx", *arguments, "--address", cluster.address]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    run("cordon", "box-2")
    assert "box-2  draining" in run("nodes")
    assert f"{named.node_id}  draining" in run("nodes", "--ids")
    assert {row["NodeName"]: row["state"] for row in phalanx.nodes()}["box-2"] == "DRAINING"
