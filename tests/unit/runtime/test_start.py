"""A quick start: few modules are imported, and a node that is alone starts its head later."""

from __future__ import annotations

import secrets
import socket
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

from phalanx.model.ids import JobID, node_process_id
from phalanx.protocol.cluster_messages import JobKnown, ProcessEnded
from phalanx.protocol.requests.cluster import GetClusterResources, GetStatus, NewDriverJob
from phalanx.protocol.requests.request import encode_request, read_result
from phalanx.runtime.node.composition import EmbeddedNode
from phalanx.runtime.node.config import NodeConfig
from phalanx.runtime.os import session as sessions
from phalanx.runtime.os.connection import listen

SLOW = ("numpy", "asyncio", "ssl", "psutil", "pynvml", "importlib.metadata", "yaml", "rich")


@pytest.mark.parametrize(
    ("module", "also"),
    [
        ("phalanx", ("msgspec", "phalanx.api")),
        ("phalanx.runtime.driver.starting", ("phalanx.protocol.frames",)),
        ("phalanx.runtime.worker.actor_host", ("concurrent.futures",)),
        ("phalanx.runtime.worker.process", ("subprocess",)),
        ("phalanx.runtime.node.process", ()),
        (
            "phalanx.runtime.node.composition",
            ("phalanx.head.groups.table", "phalanx.scheduler.cycle"),
        ),
    ],
)
def test_a_start_imports_nothing_slow(module, also):
    unwanted = (*SLOW, *also)
    program = f"import {module}, sys; print(*(m for m in {unwanted!r} if m in sys.modules))"
    found = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert found.stdout.split() == []


@pytest.fixture
def node(monkeypatch):
    """Return a node that is a whole cluster, without other processes."""
    with tempfile.TemporaryDirectory(prefix="px-") as folder:
        session = sessions.create(str(Path(folder) / "r"))
        config = NodeConfig(
            session=session,
            resources={"CPU": 2.0},
            labels={},
            object_store_bytes=1 << 20,
            node_id=secrets.token_hex(28),
        )
        ours, server = socket.socketpair()
        listener = listen(session.socket_of(b"node"))
        composition = "phalanx.runtime.node.composition"
        monkeypatch.setattr(f"{composition}.listen", lambda path: listener)
        monkeypatch.setattr(f"{composition}.own_time", lambda: 0.0)
        no_servers: Any = None
        yield EmbeddedNode(config, ours, 0, no_servers).node
        for one in (ours, server, listener):
            one.close()
        sessions.remove(session)


def ask(node, request, process=bytes(16)):
    replies: list[Any] = []
    node.head.forward(process, request.kind, encode_request(request), replies.append)
    node.on_round()
    return read_result(request, replies[0].result, replies[0].error)


def register(node):
    """Register a driver's job as the node registers it at the head."""
    job = ask(node, NewDriverJob(), node_process_id(node.prefix))
    known = JobKnown(job, secrets.token_bytes(12) + job, [], "", "", b"", False, "", 0)
    node.head.notify(known)
    node.on_round()
    return known


def test_jobs_are_counted_before_there_is_a_head_and_known_to_it_after(node):
    assert [register(node).job, register(node).job] == [
        JobID.from_int(1).binary(),
        JobID.from_int(2).binary(),
    ]
    assert not node.membership.has_head
    assert [row.number for row in ask(node, GetStatus()).jobs] == [1, 2]
    assert node.membership.has_head
    assert ask(node, NewDriverJob(), node_process_id(node.prefix)) == JobID.from_int(3).binary()


def test_a_driver_that_ended_before_there_is_a_head_is_no_job_of_it(node):
    gone, stays = register(node), register(node)
    node.head.notify(ProcessEnded(gone.driver, True))
    node.on_round()
    assert [row.job_id for row in ask(node, GetStatus()).jobs] == [stays.job.hex()]


def test_the_head_is_made_when_the_node_is_idle_and_knows_what_it_has(node):
    node.membership.tick(10.0)
    assert not node.membership.has_head, "no driver came"
    register(node)
    node.membership.tick(0.1)
    assert not node.membership.has_head, "the first task may come at any moment"
    node.membership.tick(1.0)
    assert node.membership.has_head
    assert ask(node, GetClusterResources())["CPU"] == 2.0
