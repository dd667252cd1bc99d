"""Peers that have the cluster's token send random requests to a node, random bytes to a gateway,
and random requests to the scheduler of a Ray cluster. Each is answered or dropped, and the work of
others goes on.
"""

from __future__ import annotations

import asyncio
import os
import random
import socket
from collections.abc import Sequence
from typing import Any

from tests.fuzz.running import try_out
from tests.fuzz.test_messages import KNOWN, Peer, Place
from tests.fuzz.values import Maker
from tests.fuzz.world import is_meant
from tests.world.cluster import World, one_node

from phalanx.adapters.ray.scheduler.batch_requests import BatchRequests
from phalanx.protocol.asking import Ask, Reply
from phalanx.protocol.handshake import Status
from phalanx.protocol.requests import node as node_requests
from phalanx.protocol.requests.node import GetNodeId
from phalanx.protocol.requests.ray import AdmitBatch
from phalanx.protocol.requests.request import (
    Asker,
    Request,
    RequestHandlers,
    Role,
    encode_request,
    read_result,
)
from phalanx.runtime.gateway.chunks import GET_BYTES, encode_get
from phalanx.runtime.gateway.links import Link
from phalanx.runtime.gateway.object_files import ObjectFiles
from phalanx.runtime.gateway.serving import Serving
from phalanx.runtime.os.session import Session

Said = tuple[str, Request[Any]]
OF_NODE = [
    kind
    for kind in vars(node_requests).values()
    if isinstance(kind, type) and issubclass(kind, Request) and kind is not Request
]


# ---- a node's own requests -----------------------------------------------------------------------


def draw_of_node(rng: random.Random) -> list[Said]:
    maker = Maker(rng, KNOWN)
    speakers = ("driver", "worker", "stranger")
    return [
        (rng.choice(speakers), maker.struct(rng.choice(OF_NODE), 0.3))
        for _ in range(rng.randint(1, 10))
    ]


def node_goes_on(said: list[Said]) -> None:
    place = Place()
    peers = {"driver": place.process(1), "worker": place.process(2, "worker"), "stranger": Peer()}
    other = place.process(9)
    for speaker, request in said:
        peer = peers[speaker]
        if peer in place.lost:
            continue
        try:
            place.node.on_message(peer, Ask(7, request.kind, encode_request(request)))
        except Exception as error:
            if not is_meant(error):
                raise AssertionError(f"{speaker}: {request!r:.300}") from error
            place.lost.append(peer)
        place.rounds(1)
        for reply in peer.sent:
            if isinstance(reply, Reply) and reply.error is not None:
                assert reply.error.code != "system_failure", (request, reply.error)
        peer.sent.clear()
    question = GetNodeId()
    place.node.on_message(other, Ask(9, question.kind, encode_request(question)))
    (answer,) = [one for one in other.sent if isinstance(one, Reply)]
    assert read_result(question, answer.result, answer.error)
    for defect in place.internal_errors:
        if not is_meant(defect):
            raise AssertionError(f"{said!r:.1000}") from defect


def test_a_node_answers_any_request_of_its_own_or_drops_who_asks() -> None:
    try_out(draw_of_node, node_goes_on, 60)


# ---- a gateway -----------------------------------------------------------------------------------

OBJECT = "ab" * 16 + "-1"
HELD = b"what another node may read"


def draw_gets(rng: random.Random) -> list[bytes]:
    names = [OBJECT, OBJECT[:-1] + "2", "../" + OBJECT, "ab" * 16 + "-", "", "a" * 53, "é\0/"]
    numbers = [0, 1, len(HELD), len(HELD) + 1, 8 << 20, (8 << 20) + 1, 2**63, 2**64 - 1]
    made = []
    for _ in range(rng.randint(1, 6)):
        raw = bytearray(encode_get(rng.choice(names), rng.choice(numbers), rng.choice(numbers)))
        if rng.random() < 0.3:
            raw[rng.randrange(len(raw))] = rng.randrange(256)
        made.append(bytes(raw[: rng.choice([GET_BYTES, GET_BYTES, rng.randrange(GET_BYTES)])]))
    return made


async def _gateway(files: ObjectFiles, said: list[bytes]) -> None:
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: broken.append(context))
    broken: list[Any] = []
    serving = Serving(loop, files)
    shaken: Any = _Shaken()
    ends, tasks = [], []
    for _ in range(2):
        theirs, ours = socket.socketpair()
        ends.append(Link(loop, theirs))
        tasks.append(asyncio.create_task(serving.serve(Link(loop, ours), shaken)))
        assert await ends[-1].receive(1) == b"v"
    hostile, other = ends
    for raw in said:
        try:
            await hostile.send(raw)
        except OSError:
            break  # it has hung up
    hostile.end_writing()
    try:
        while True:
            await hostile.receive_some(1 << 16)
    except (OSError, EOFError):
        hostile.close()
    await other.send(encode_get(OBJECT, 0, len(HELD)))
    assert (await other.receive(9 + len(HELD)))[9:] == HELD
    other.close()
    assert await asyncio.gather(*tasks) == [None, None]
    assert not broken


class _Shaken:
    """Stands for a completed handshake."""

    def verdict(self, status: Status) -> bytes:
        return b"v"


def test_a_gateway_answers_any_bytes_or_hangs_up(tmp_path) -> None:
    places = {name: str(tmp_path / name) for name in ("directory", "shared", "spill", "disk")}
    for place in places.values():
        os.mkdir(place, 0o700)
    (tmp_path / "shared" / OBJECT).write_bytes(HELD)
    files = ObjectFiles(Session(name="s", **places))

    def goes_on(said: list[bytes]) -> None:
        asyncio.run(_gateway(files, said))

    try_out(draw_gets, goes_on, 60)


# ---- the scheduler of a Ray cluster --------------------------------------------------------------


class RayCluster:
    """The parts of a Ray cluster that decide about the admission of tasks."""

    def __init__(self, world: World) -> None:
        self.queues = world.scheduler.queues

    def outside_gangs(self) -> dict[str, float]:
        return {"CPU": 4.0}

    def process_ended(self, process: bytes, is_driver: bool, now: float) -> None:
        """Do nothing, because no other part records anything about a process."""


RAY_KNOWN: dict[tuple[str, Any], Sequence[Any]] = {
    ("queue", str): ["default", "q"],
    ("ticket", bytes): [b"t", b"u"],
    ("needs", dict[str, float]): [{"CPU": 1.0}, {"CPU": 0.0}, {"x": 3.0}],
}


def _admission() -> tuple[BatchRequests, RequestHandlers, list[Exception], list[float]]:
    world = one_node(4)
    world.queue("q", capability={"CPU": 2.0})
    now, defects = [100.0], []
    admission = BatchRequests(RayCluster(world), lambda: now[0])
    handlers = RequestHandlers(
        "the scheduler", *admission.entries(), on_defect=lambda error, _: defects.append(error)
    )
    return admission, handlers, defects, now


def draw_of_ray(rng: random.Random) -> list[Said]:
    maker = Maker(rng, RAY_KNOWN)
    _, handlers, _, _ = _admission()
    kinds = list(handlers.types)
    return [
        (rng.choice(["a", "b"]), maker.struct(rng.choice(kinds), 0.3))
        for _ in range(rng.randint(1, 10))
    ]


def ray_goes_on(said: list[Said]) -> None:
    admission, handlers, defects, now = _admission()
    for who, request in said:
        asker = Asker[Any](Role.PROCESS, who.encode(), lambda result, error: None)
        handlers.answer(request.kind, encode_request(request), asker)
        now[0] += 1.0
        admission.tick(now[0])
    if defects:
        raise AssertionError(f"{said!r:.1000}") from defects[0]
    now[0] += 100.0  # those who asked are gone
    admission.tick(now[0])
    answered: list[Any] = []
    other = Asker[Any](Role.PROCESS, b"other", lambda result, error: answered.append(error))
    honest = AdmitBatch(b"honest", "default", 0, {"CPU": 1.0}, 1)
    handlers.answer(honest.kind, encode_request(honest), other)
    admission.tick(now[0] + 1.0)
    assert answered == [None]


def test_the_scheduler_on_ray_answers_any_request_about_tasks() -> None:
    try_out(draw_of_ray, ray_goes_on, 200)
