"""A real head and real nodes get random requests and garbage while jobs of other people run. These
jobs must start within a time limit and end as they should, and the head's memory must not grow.

`PHALANX_FUZZ_S=3600 pytest -m slow --timeout 0 tests/fuzz/test_live.py` runs it for an hour.
"""

from __future__ import annotations

import contextlib
import random
import socket
import struct
import time
from pathlib import Path
from typing import Any

import msgspec
import psutil
import pytest
from tests.fuzz.requests import KNOWN, SPECIAL
from tests.fuzz.running import SECONDS
from tests.fuzz.test_messages import MESSAGES
from tests.fuzz.test_requests import OF_CONTROL
from tests.fuzz.values import Maker
from tests.polling import eventually
from tests.system.cluster.conftest import new_cluster as new_cluster  # noqa: PLC0414 -- a fixture

import phalanx
from phalanx.api.session import running_engine
from phalanx.errors import PhalanxError
from phalanx.model.jobs.states import COMPLETED
from phalanx.protocol.frames import encode_frame
from phalanx.protocol.membership_messages import Leave
from phalanx.protocol.messages import PROTOCOL_VERSION, Hello
from phalanx.protocol.requests.actors import KillActor
from phalanx.protocol.requests.cluster import GetStatus
from phalanx.protocol.requests.groups import RemoveGroup, WaitGroup
from phalanx.protocol.requests.jobs import ApplyManifests, DeleteJob
from phalanx.protocol.requests.request import Request, Role

LASTS_S = SECONDS or 60.0
STARTS_WITHIN_S = 60.0
"""The seconds within which a bystander's job must start. Machines that run tests are slow at
times.
"""
GROWTH_BYTES = 200 << 20
SLOT = "slot"
ASKED = [
    kind
    for kind in OF_CONTROL
    if Role.PROCESS in kind.asked_by and kind not in (WaitGroup, RemoveGroup, KillActor)
]
"""The types of requests that are answered immediately."""


def sockets_of(cluster: Any) -> list[Any]:
    """Return the listening sockets of the cluster: Unix sockets by path, TCP sockets by (host,
    port).
    """
    found: list[Any] = [p for p in Path(cluster.temp_dir).rglob("*") if p.is_socket()]
    for root in [cluster._head.process.pid, *(node.pid for node in cluster.list_all_nodes())]:
        for process in [psutil.Process(root), *psutil.Process(root).children(recursive=True)]:
            with contextlib.suppress(psutil.Error):
                found += [
                    (c.laddr.ip, c.laddr.port)
                    for c in process.net_connections("tcp")
                    if c.status == psutil.CONN_LISTEN
                ]
    return list(dict.fromkeys(found))


def garbage(maker: Maker) -> bytes:
    """Return bytes that a malicious peer could send: bytes outside the protocol, half a frame, or
    messages after an introduction.
    """
    rng = maker.rng
    if rng.random() < 0.2:
        return rng.randbytes(rng.randint(0, 5000))
    said: list[Any] = []
    if rng.random() < 0.8:
        said.append(Hello(PROTOCOL_VERSION, rng.randbytes(16), rng.choice(["worker", "x"]), 1))
    said += [maker.struct(rng.choice(MESSAGES), 0.3) for _ in range(rng.randint(0, 4))]
    frame = encode_frame([one for one in said if not isinstance(one, Leave)])
    cut = rng.random()
    if cut < 0.3:
        return frame[: rng.randrange(len(frame))]
    if cut < 0.4:
        return struct.pack(">I", rng.randrange(1 << 32)) + frame
    at = rng.randrange(len(frame))
    return frame if cut < 0.7 else frame[:at] + rng.randbytes(1) + frame[at + 1 :]


def send(where: Any, data: bytes) -> None:
    """Send data to a socket, and read at most one piece of the answer."""
    kind = socket.AF_UNIX if isinstance(where, Path) else socket.AF_INET
    with socket.socket(kind, socket.SOCK_STREAM) as stranger, contextlib.suppress(OSError):
        stranger.settimeout(5)
        stranger.connect(str(where) if isinstance(where, Path) else where)
        stranger.sendall(data)
        stranger.shutdown(socket.SHUT_WR)
        stranger.recv(1 << 16)


def ask(maker: Maker) -> str:
    """Send one random request as this program. Returns how it was answered."""
    kinds: list[type[Request[Any]]] = [*ASKED, *[ApplyManifests] * 20]
    kind = maker.rng.choice(kinds)
    try:
        running_engine().ask(maker.struct(kind))
    except (PhalanxError, ValueError, TypeError, msgspec.MsgspecError, OverflowError) as error:
        return type(error).__name__
    return "answered"


@pytest.mark.slow
@pytest.mark.timeout(int(LASTS_S) + 600)
def test_a_cluster_that_is_asked_anything_serves_others(new_cluster: Any) -> None:
    cluster = new_cluster(1)
    cluster.add_node(num_cpus=1, resources={SLOT: 4})
    cluster.wait_for_nodes(STARTS_WITHIN_S)
    phalanx.create_queue("others")
    head = psutil.Process(cluster._head.process.pid)
    seed = random.SystemRandom().randrange(1 << 32)
    print(f"seed {seed}")
    rng = random.Random(seed)
    until, rounds = time.monotonic() + LASTS_S, 0
    before = 0
    grown, counts = 0, dict[str, int]()
    while time.monotonic() < until:
        for _ in range(40):
            maker = Maker(rng, KNOWN, SPECIAL)
            said = ask(maker)
            counts[said] = counts.get(said, 0) + 1
        for where in sockets_of(cluster):
            send(where, garbage(Maker(rng, KNOWN, SPECIAL)))
            counts["garbage"] = counts.get("garbage", 0) + 1
        rounds += 1
        began = time.monotonic()
        job = phalanx.submit(
            phalanx.Job(
                ["true"],
                name=f"bystander-{rounds}",
                queue="others",
                num_cpus=0,
                resources={SLOT: 1},
            )
        )
        assert job.wait(STARTS_WITHIN_S) == COMPLETED
        assert time.monotonic() - began < STARTS_WITHIN_S
        assert head.is_running()
        for name in "abcq":
            with contextlib.suppress(PhalanxError, ValueError):
                running_engine().ask(DeleteJob(f"default/{name}"))
        before = before or head.memory_info().rss
        grown = head.memory_info().rss - before
        assert grown < GROWTH_BYTES, f"the head has grown by {grown >> 20} MiB in {rounds} rounds"
    status = running_engine().ask(GetStatus())
    print(f"{rounds} rounds, {counts}, head +{grown >> 20} MiB, defects {status.defects}")
    assert status.defects == {}
    eventually(lambda: all(row.state == "ALIVE" for row in running_engine().ask(GetStatus()).nodes))
