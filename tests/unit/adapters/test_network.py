"""The answers of Ray's network helpers on this machine."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from phalanx.adapters.ray.modules import network


@pytest.fixture
def asked(monkeypatch):
    """Count how often a program on node n1 asks for the list of nodes; return the counter."""
    rows = [{"NodeID": "n1", "NodeManagerAddress": "10.0.0.1"}]
    count = []

    def nodes():
        count.append(1)
        return rows

    here = SimpleNamespace(get_node_id=lambda: "n1")
    monkeypatch.setattr(network, "is_initialized", lambda: True)
    monkeypatch.setattr(network, "get_runtime_context", lambda: here)
    monkeypatch.setattr(network, "nodes", nodes)
    monkeypatch.setattr(network, "_known", {})
    return count


def test_the_address_of_a_node_is_asked_for_once(asked):
    assert [network.get_node_ip_address() for _ in range(3)] == ["10.0.0.1"] * 3
    assert len(asked) == 1


def test_it_stands_in_place_of_localhost(asked):
    assert network.resolve_ip_for_localhost("localhost") == "10.0.0.1"
    assert network.resolve_ip_for_localhost("10.0.0.7") == "10.0.0.7"
    assert len(asked) == 1
