"""Nodes with real gateways. Each test fails if a gateway ends early or writes to standard error."""

from __future__ import annotations

import tempfile

import pytest
from tests.system.gateway.world import Node, new_token


@pytest.fixture
def place():
    """Yield a directory with a short path, because the paths of sockets are limited."""
    with tempfile.TemporaryDirectory(prefix="gw", dir="/tmp") as path:
        yield path


@pytest.fixture
def start(place):
    """Yield a function that makes nodes that share a token and know each other."""
    token = new_token(place)
    nodes = []

    def make(count=2, know=True, **config):
        made = [Node(place, config.pop("token_file", token), **config) for _ in range(count)]
        nodes.extend(made)
        if know:
            for node in made:
                node.know(*made)
        return made

    yield make
    alive = [node.process.poll() is None for node in nodes if not node.is_killed]
    errors = [node.errors() for node in nodes]
    for node in nodes:
        node.close()
    assert errors == [""] * len(nodes)
    assert all(alive), "a gateway ended by itself"
