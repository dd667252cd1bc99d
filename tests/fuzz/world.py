"""A head, two nodes that carry out their orders, and jobs of other people on them."""

from __future__ import annotations

import linecache
from pathlib import Path
from typing import Any

import msgspec
from tests.world.cluster import World
from tests.world.node import WorkingNode
from tests.world.store import Journal

import phalanx
from phalanx.errors import SystemFailureError
from phalanx.model.jobs.spec import JobSpec, Process, TaskGroup, Template
from phalanx.protocol.requests.jobs import ApplyManifests, Manifest
from phalanx.protocol.requests.queues import CreateQueue, QueueFields
from phalanx.protocol.requests.request import Asker, Request, Role, encode_request
from phalanx.protocol.wire_errors import code_of, to_wire

SOURCES = str(Path(phalanx.__file__).parent)
NODES = {"6e" * 28: b"node-a", "6f" * 28: b"node-b"}
OTHERS = "bystanders"
"""The queue of the bystanders: people who do nothing wrong."""
PATIENCE = 6
"""The number of rounds within which work that fits must have started."""


class Answer:
    """The outcome of a request."""

    def __init__(self, role: Role, process: bytes, node: bytes) -> None:
        self.error: BaseException | None = None
        self.results: list[Any] = []
        answer = self

        class Watched(Asker[Any]):
            __slots__ = ()

            def fail(self, error: BaseException) -> None:
                answer.error = error
                super().fail(error)

        self.asker = Watched(role, process, lambda result, _: self.results.append(result), node)


class PeopleWorld(World):
    """A head with a store, two working nodes, and jobs of bystanders."""

    node_class = WorkingNode

    def __init__(self) -> None:
        super().__init__(
            journal=Journal(), is_alone=False, keeps_defects=True, time_s=1000.0, limits=None
        )
        for node_id, prefix in NODES.items():
            self.add(node_id, {}, prefix=prefix, **TOTAL)
        self.request(CreateQueue(OTHERS, QueueFields(weight=1)))
        self.bystanders = 0

    # ---- asking ------------------------------------------------------------------------------

    def request(
        self, request: Request[Any], role: Role | None = None, process: bytes = bytes(16)
    ) -> Answer:
        """Send a request in `role`. By default it is a role that may send this request."""
        return self.request_raw(type(request), encode_request(request), role, process)

    def request_raw(
        self, kind: Any, body: Any, role: Role | None = None, process: bytes = bytes(16)
    ) -> Answer:
        role = role or kind.asked_by[0]
        answer = Answer(role, process if role is not Role.VISITOR else b"", b"node-a")
        self.head.answering.handlers_of(kind.kind).answer(kind.kind, body, answer.asker)
        return answer

    def rounds(self, count: int = PATIENCE) -> None:
        super().rounds(count)

    # ---- other people ------------------------------------------------------------------------

    def forget_reservations(self) -> None:
        """Delete all reservations. Some of them may keep bystanders' jobs from their nodes."""
        for record in self.scheduler.calendar.table.all():
            self.scheduler.calendar.table.delete(record.name)

    def submit_bystander(self) -> str:
        """Submit a job of a bystander; return its name."""
        self.bystanders += 1
        name = f"bystander-{self.bystanders}"
        answer = self.request(
            ApplyManifests([Manifest("Job", msgspec.msgpack.encode(bystander(name)))])
        )
        assert answer.error is None, answer.error
        return f"{OTHERS}/{name}"

    def state(self, uid: str) -> str:
        job = self.scheduler.jobs.table.get(uid)
        return "" if job is None else job.state

    def end_members(self, code: int, of: str = "") -> None:
        """End running members with this exit code: those of the job `of`, or by default those of
        all jobs except the bystanders'.
        """
        for place, order in list(self.running.items()):
            if order.job == of or not (of or order.job.startswith(f"{OTHERS}/")):
                self.end(place, code)

    def happens(self, what: str) -> None:
        """Let the event of this name happen. These events are not requests."""
        match what:
            case "the head restarts":
                self.restart()
            case "members succeed":
                self.end_members(0)
            case "members fail":
                self.end_members(7)
            case "a minute" | "a day":
                self.now += {"a minute": 60.0, "a day": 86_400.0}[what]
                for node in self.nodes.values():
                    self.report(node)
        self.rounds(2)


OF_OTHERS = "bystanders.example/slot"
TOTAL = {"CPU": 4.0, "GPU": 2.0, "memory": 1e9, OF_OTHERS: 4.0}
"""The resources of each node."""


def bystander(name: str) -> JobSpec:
    """Return a job of two members that asks for a resource that no other job asks for."""
    process = Process(command=("true",), requests=((OF_OTHERS, 1.0),))
    group = TaskGroup(
        name="w", replicas=2, min_available=2, template=Template(processes=(process,))
    )
    return JobSpec(name=name, namespace=OTHERS, queue=OTHERS, groups=(group,), min_available=2)


def is_meant(error: BaseException) -> bool:
    """Whether the package raised the error on purpose, with a message for the asker. Internal
    errors and errors of Python itself are not meant.
    """
    is_slip = to_wire(error).code == code_of(SystemFailureError) and not isinstance(
        error, SystemFailureError
    )
    if is_slip:
        return False
    traceback = error.__traceback__
    assert traceback is not None
    while traceback.tb_next is not None:
        traceback = traceback.tb_next
    file = traceback.tb_frame.f_code.co_filename
    text = linecache.getline(file, traceback.tb_lineno).strip()
    return file.startswith(SOURCES) and text.startswith("raise")
