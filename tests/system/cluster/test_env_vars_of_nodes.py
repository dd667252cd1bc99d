"""Environment variables that a node is started with, as they would be set on some kinds of
machines.
"""

from __future__ import annotations

import os

import phalanx


@phalanx.remote(resources={"here": 1})
def kind():
    return os.environ.get("KIND_OF_MACHINE")


def test_workers_of_a_node_see_its_variables(new_cluster, get):
    cluster = new_cluster()
    cluster.add_node(num_cpus=1, resources={"here": 1}, env_vars={"KIND_OF_MACHINE": "v6"})
    cluster.add_node(num_cpus=1, resources={"there": 1})
    cluster.connect()
    assert get(kind.remote()) == "v6"
    assert get(kind.options(resources={"there": 1}).remote()) is None
    assert "KIND_OF_MACHINE" not in os.environ
