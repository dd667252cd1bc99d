"""Owners on other nodes that cannot be reached for a moment: processes that read their objects
wait.
"""

from __future__ import annotations

import socket

import psutil
import pytest

import phalanx
from phalanx import errors
from phalanx.cluster_utils import Cluster
from phalanx.protocol.handshake import Status
from phalanx.runtime.gateway import gate

PATIENCE_S = 120


@pytest.fixture(scope="module")
def cluster():
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    for name in "ab":
        cluster.add_node(num_cpus=1, resources={name: 10})
    cluster.connect()
    yield cluster
    cluster.shutdown()


@phalanx.remote(resources={"b": 1}, num_cpus=0)
class Owner:
    def put(self, value):
        return [phalanx.put(value)]

    def large(self):
        return bytes(2_000_000)


@phalanx.remote(resources={"a": 1}, num_cpus=0)
class Between:
    """An actor that owns another actor, which this driver does not know."""

    def __init__(self):
        self.owner = Owner.remote()

    def ready(self):
        return True

    def ask(self, value):
        return phalanx.get(self.owner.put.remote(value))


@pytest.fixture
def stop_gateway(cluster):
    """Stop the gateway of node b; yield a function that continues it."""
    (node,) = [n for n in cluster.list_all_nodes() if resources_of(n).get("b")]
    (gateway,) = [p for p in psutil.Process(node.pid).children() if p.name() == "phalanx-gateway"]
    gateway.suspend()
    yield gateway.resume
    gateway.resume()


def resources_of(node):
    return next(row["Resources"] for row in phalanx.nodes() if row["NodeID"] == node.node_id)


@pytest.fixture
def refuse(monkeypatch):
    """Return a function `refuse(*statuses)`: it makes the next dials of this driver end with these
    statuses, and returns the list of those that are left.
    """
    dial = gate.request_dial

    def refuse(*statuses):
        left = list(statuses)

        def answered(session, target):
            if not left:
                return dial(session, target)
            ours, theirs = socket.socketpair()
            theirs.send(bytes([left.pop(0)]) + b"no route to host")
            theirs.close()
            return ours

        monkeypatch.setattr(gate, "request_dial", answered)
        return left

    return refuse


def test_get_ends_in_time_while_an_object_is_on_its_way(cluster, request):
    maker = Owner.remote()  # no task: its worker would be used again, and be known to this driver
    ref = maker.large.remote()
    phalanx.wait([ref], timeout=PATIENCE_S, fetch_local=False)
    go_on = request.getfixturevalue("stop_gateway")
    with pytest.raises(errors.GetTimeoutError, match="on their way here"):
        phalanx.get(ref, timeout=0.2)
    with pytest.raises(errors.GetTimeoutError, match="on their way here"):
        phalanx.get([ref], timeout=0)
    go_on()
    assert phalanx.get(ref, timeout=PATIENCE_S) == bytes(2_000_000)


@pytest.mark.parametrize("status", [Status.UNREACHABLE, Status.NO_NODE, Status.BUSY])
def test_readers_wait_while_an_owner_cannot_be_reached(cluster, refuse, status):
    between = Between.remote()
    phalanx.get(between.ready.remote(), timeout=PATIENCE_S)
    left = refuse(status, status)
    (ref,) = phalanx.get(between.ask.remote(7), timeout=PATIENCE_S)
    assert phalanx.get(ref, timeout=PATIENCE_S) == 7
    assert left == []


def test_an_owner_that_is_not_there_is_dead_at_once(cluster, refuse):
    between = Between.remote()
    phalanx.get(between.ready.remote(), timeout=PATIENCE_S)
    refuse(Status.NO_PROCESS, Status.NO_PROCESS, Status.NO_PROCESS)
    (ref,) = phalanx.get(between.ask.remote(7), timeout=PATIENCE_S)
    with pytest.raises(errors.OwnerDiedError, match="which owned it, has died"):
        phalanx.get(ref, timeout=PATIENCE_S)
