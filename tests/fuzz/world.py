"""A head by itself, two nodes that do what they are ordered, and other people's work on them.

Nothing is real: the clock is moved by hand, and a restarted head reads its rows from a dict.
"""

from __future__ import annotations

import linecache
import random
from collections import defaultdict
from pathlib import Path
from typing import Any

import msgspec
from tests.unit.head.making import make_control

import phalanx
from phalanx.errors import SystemFailureError
from phalanx.head.gangs.interface import Held
from phalanx.head.state_store import read_state
from phalanx.model.ids import GangId, MemberId
from phalanx.model.jobs.spec import JobSpec, Process, TaskGroup, Template
from phalanx.observe.state.query import StatePart
from phalanx.protocol.bundle_messages import (
    BundleInventory,
    BundlesGone,
    CommitBundles,
    Committed,
    EndMember,
    GiveBackBundles,
    LogRead,
    MemberNews,
    PrepareBundles,
    Prepared,
    ReadLog,
    StartMember,
)
from phalanx.protocol.cluster_messages import (
    ActorPlaced,
    EventsReported,
    GatherEvents,
    GatherState,
    Join,
    Joined,
    NodeReport,
    PlaceActor,
    StateReported,
    ViewRow,
)
from phalanx.protocol.requests.jobs import ApplyManifests, Manifest
from phalanx.protocol.requests.queues import CreateQueue, QueueFields
from phalanx.protocol.requests.request import Asker, Request, Role, encode_request
from phalanx.protocol.wire_errors import code_of, to_wire

SOURCES = str(Path(phalanx.__file__).parent)
NODES = {"6e" * 28: b"node-a", "6f" * 28: b"node-b"}
OTHERS = "bystanders"
"""The queue of the people who do nothing wrong, and what only their work asks for."""
PATIENCE = 6
"""Rounds after which work that finds room has started."""


class Rows:
    """A store that keeps all at once, and has room."""

    shortage, is_stalled = "", False

    def __init__(self) -> None:
        self.tables: dict[str, dict[bytes, bytes]] = defaultdict(dict)

    def record(self, changes, durable=None):
        for (table, key), value in changes.items():
            if value is None:
                self.tables[table].pop(key, None)
            else:
                self.tables[table][key] = value
        if durable is not None:
            durable()

    def flush(self):
        pass

    def load(self, table):
        return list(self.tables[table].items())

    def get(self, table, key):
        return self.tables[table].get(key)


class Answer:
    """What became of a request."""

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


class World:
    """A head, and what its nodes hold."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.rows = Rows()
        self.internal_errors: list[Exception] = []
        self.box: list[tuple[bytes, Any]] = []
        self.held: dict[bytes, dict[MemberId, dict[str, float]]] = {p: {} for p in NODES.values()}
        self.rng = random.Random(1)
        self.epochs: dict[bytes, int] = {}
        self.attempts: dict[MemberId, int] = {}
        self.running: dict[MemberId, StartMember] = {}
        self.begin()
        self.ask(CreateQueue(OTHERS, QueueFields(weight=1)))
        self.bystanders = 0

    def begin(self) -> None:
        """A head, the first or the next one."""
        self.control = make_control(
            lambda prefix, message: self.box.append((prefix, message)),
            lambda: self.now,
            rng=self.rng,
            journal=self.rows,
            stored=read_state(self.rows),
            report_defect=self.internal_errors.append,
        )
        for node_id, prefix in NODES.items():
            self.join(node_id, prefix)

    def join(self, node_id: str, prefix: bytes) -> None:
        held: list[Held] = [(*place, self.attempts[place], True) for place in self.held[prefix]]
        self.hear(
            prefix,
            Join(
                self.row(node_id, prefix),
                "host",
                self.epochs.get(prefix, 0),
                {},
                BundleInventory(held, {}),
            ),
        )
        self.report(prefix)

    def restart(self) -> None:
        """The head ends, and another one reads what it wrote."""
        self.box.clear()
        self.begin()

    def row(self, node_id: str, prefix: bytes) -> ViewRow:
        return ViewRow(node_id, prefix, "10.0.0.1", 7, "ALIVE", TOTAL, dict(TOTAL), labels={})

    # ---- asking ------------------------------------------------------------------------------

    def ask(
        self, request: Request[Any], role: Role | None = None, process: bytes = bytes(16)
    ) -> Answer:
        """Ask, as whoever may."""
        return self.ask_raw(type(request), encode_request(request), role, process)

    def ask_raw(self, kind, body, role=None, process=bytes(16)) -> Answer:
        role = role or kind.asked_by[0]
        answer = Answer(role, process if role is not Role.VISITOR else b"", b"node-a")
        self.control.answering.handlers_of(kind.kind).answer(kind.kind, body, answer.asker)
        return answer

    # ---- time --------------------------------------------------------------------------------

    def rounds(self, count: int = PATIENCE) -> None:
        for _ in range(count):
            self.now += 1.0
            self.control.on_tick(self.now)
            self.control.on_round(self.now)
            box, self.box = self.box, []
            for prefix, message in box:
                self.node_does(prefix, message)
            for prefix in NODES.values():
                self.report(prefix)

    def hear(self, prefix: bytes, message: Any) -> None:
        self.control.on_message(prefix, message)

    def report(self, prefix: bytes) -> None:
        free = dict(TOTAL)
        for bundle in self.held[prefix].values():
            for name, amount in bundle.items():
                free[name] = free.get(name, 0.0) - amount
        self.hear(prefix, NodeReport(available=free))

    def node_does(self, prefix: bytes, message: Any) -> None:
        held = self.held[prefix]
        match message:
            case Joined():
                self.epochs[prefix] = message.epoch
            case PrepareBundles():
                taken: dict[str, float] = {}
                for bundle in (*held.values(), *message.bundles.values()):
                    for name, amount in bundle.items():
                        taken[name] = taken.get(name, 0.0) + amount
                ok = all(amount <= TOTAL.get(name, 0.0) for name, amount in taken.items())
                if ok:
                    held |= {(GangId(message.group), i): b for i, b in message.bundles.items()}
                    self.attempts |= {
                        (GangId(message.group), i): message.attempt for i in message.bundles
                    }
                devices: dict[int, Any] = {i: {} for i in message.bundles}
                self.hear(prefix, Prepared(message.group, message.attempt, ok, devices, []))
            case CommitBundles():
                self.hear(prefix, Committed(message.group, message.attempt, True))
            case GiveBackBundles():
                for index in message.indexes:
                    held.pop((GangId(message.group), index), None)
                    self.running.pop((GangId(message.group), index), None)
                self.hear(prefix, BundlesGone(message.group, message.attempt))
            case StartMember():
                self.running[message.group, message.index] = message
                self.hear(
                    prefix, MemberNews(message.group, message.index, message.attempt, log="x")
                )
            case EndMember():
                if self.running.pop((message.group, message.index), None) is not None:
                    self.hear(
                        prefix, MemberNews(message.group, message.index, message.attempt, 143)
                    )
            case PlaceActor():
                self.hear(
                    prefix, ActorPlaced(message.actor, message.incarnation, prefix + bytes(10), 1)
                )
            case ReadLog():
                self.hear(prefix, LogRead(message.token, b"", 0))
            case GatherEvents():
                self.hear(prefix, EventsReported(message.number, []))
            case GatherState():
                self.hear(prefix, StateReported(message.number, StatePart([], 0, 0)))

    # ---- other people ------------------------------------------------------------------------

    def forget_reservations(self) -> None:
        """What is reserved keeps others away, as somebody asked for: that is no harm."""
        for record in self.control.gang_scheduler.calendar.table.all():
            self.control.gang_scheduler.calendar.table.delete(record.name)

    def submit_bystander(self) -> str:
        """A job of somebody who does nothing wrong; its name."""
        self.bystanders += 1
        name = f"bystander-{self.bystanders}"
        answer = self.ask(
            ApplyManifests([Manifest("Job", msgspec.msgpack.encode(bystander(name)))])
        )
        assert answer.error is None, answer.error
        return f"{OTHERS}/{name}"

    def state(self, uid: str) -> str:
        job = self.control.gang_scheduler.jobs.table.get(uid)
        return "" if job is None else job.state

    def end_members(self, code: int, of: str = "") -> None:
        """All members of a job end with this code, or of all jobs but those of others."""
        for place, order in list(self.running.items()):
            if order.job == of or not (of or order.job.startswith(f"{OTHERS}/")):
                prefix = next((p for p in self.held if place in self.held[p]), b"node-a")
                self.running.pop(place, None)
                self.hear(prefix, MemberNews(*place, order.attempt, code))

    def happens(self, what: str) -> None:
        """What is no request."""
        match what:
            case "the head restarts":
                self.restart()
            case "members succeed":
                self.end_members(0)
            case "members fail":
                self.end_members(7)
            case "a minute" | "a day":
                self.now += {"a minute": 60.0, "a day": 86_400.0}[what]
                for prefix in NODES.values():
                    self.report(prefix)
        self.rounds(2)


OF_OTHERS = "bystanders.example/slot"
TOTAL = {"CPU": 4.0, "GPU": 2.0, "memory": 1e9, OF_OTHERS: 4.0}
"""What each node has."""


def bystander(name: str) -> JobSpec:
    """A job of two members that asks for what nobody else knows."""
    process = Process(command=("true",), requests=((OF_OTHERS, 1.0),))
    group = TaskGroup(
        name="w", replicas=2, min_available=2, template=Template(processes=(process,))
    )
    return JobSpec(name=name, namespace=OTHERS, queue=OTHERS, groups=(group,), min_available=2)


def is_meant(error: BaseException) -> bool:
    """Whether code of ours raised it, in words for who asked: no slip of ours, and none of Python's
    own words."""
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
