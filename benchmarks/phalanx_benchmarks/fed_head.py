"""A head in this process with simulated nodes, which carry out orders immediately. Time passes only
when the benchmark advances it.
"""

from __future__ import annotations

import gc
import random
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any, NoReturn, TypeVar

import msgspec

from phalanx.head.head import NOTHING_STORED, Head
from phalanx.head.jobs.probing import NoAnswers
from phalanx.head.outbox import Outbox
from phalanx.head.setup import HeadShell
from phalanx.head.state_store import StateStore, read_state
from phalanx.model.garbage import uncollected
from phalanx.model.ids import PROCESS_ID_BYTES
from phalanx.model.jobs.spec import JobSpec, Process, TaskGroup, Template
from phalanx.protocol.actor_messages import ActorPlaced, PlaceActor
from phalanx.protocol.bundle_messages import (
    BundleInventory,
    CommitBundles,
    Committed,
    MemberNews,
    PrepareBundles,
    Prepared,
    StartMember,
)
from phalanx.protocol.cluster_messages import Via, View, ViewRow
from phalanx.protocol.frames import encode_body
from phalanx.protocol.membership_messages import Join
from phalanx.protocol.node_messages import ActorReady
from phalanx.protocol.report_messages import NodeReport
from phalanx.protocol.requests.request import Asker, Request, Role, encode_request, read_result
from phalanx.protocol.wire_errors import WireError
from phalanx.scheduler.devices.quantities import SCALE
from phalanx.storage.journal import Journal
from phalanx.storage.opening import open_storage
from phalanx_research.virtual_time import VirtualClock, VirtualTime

R = TypeVar("R")
Clock = Callable[[], float]
"""A function that returns the seconds of a monotonic clock."""

GPUS = 8
TOTAL = {"CPU": 64.0, "GPU": float(GPUS), "memory": 512 * 2.0**30}
_ORDERS = (PrepareBundles, CommitBundles, StartMember, PlaceActor)
_TURN_S = 0.001
"""The seconds of one turn. They are too few for a silent node to be declared dead."""


class FedHead:
    """A head with nodes 1, 2, … of 64 CPUs and 8 GPUs each, whose jobs never end. `store` is the
    file of the head's tables; empty: nothing is stored.
    """

    def __init__(self, store: str = "") -> None:
        self.time = VirtualTime(1_000.0)
        self._sent: list[tuple[bytes, Any]] = []
        self._held: dict[bytes, int] = {}
        """The number of GPUs that jobs hold on each node."""
        self._workers = 0
        with uncollected() if store else nullcontext():
            storage = open_storage(store) if store else None
            stored = NOTHING_STORED if storage is None else read_state(storage)
            self._journal = None if storage is None else Journal(storage)
            state_store = StateStore(self._journal)
            self.control = Head(
                Outbox(self._send, state_store),
                state_store,
                HeadShell(
                    clock=VirtualClock(self.time),
                    rng=random.Random(0),
                    prober=NoAnswers(),
                    report_defect=_raise,
                ),
                stored=stored,
            )

        if store:
            gc.freeze()  # as in the head's process

    def close(self) -> None:
        """Close the store."""
        if self._journal is not None:
            self._journal.close()

    def ask(self, request: Request[R], process: bytes = b"") -> R:
        """Send a request to the head, and return the answer. Both are encoded and decoded as over a
        socket.

        `process` is the id of the asking process; empty for a command of the command line, which is
        no driver or worker.
        """
        replies: list[tuple[msgspec.Raw, WireError | None]] = []
        role = Role.PROCESS if process else Role.VISITOR
        asker: Asker[R] = Asker(role, process, lambda *reply: replies.append(reply))
        handlers = self.control.answering.handlers_of(request.kind)
        handlers.answer(request.kind, encode_request(request), asker)
        if self._journal is not None:
            self._journal.drain()
        return read_result(request, *replies[0])

    def join(self, node: int) -> None:
        """Make a node join the head and send its first report."""
        prefix = prefix_of(node)
        row = ViewRow(
            node_id=prefix.hex().ljust(56, "0"), prefix=prefix, host="10.0.0.1", port=7000,
            state="ALIVE", total=TOTAL, available=dict(TOTAL), labels={"zone": "a"},
        )  # fmt: skip
        inventory = BundleInventory(held=[], ended={})
        self.control.on_message(prefix, Join(row, f"n{node:04}", 0, {}, inventory))
        self.report(node, 0)

    def report(self, node: int, second: int) -> None:
        """Make a node report its available resources. The number of CPUs that tasks use changes
        from second to second.
        """
        self.control.on_message(prefix_of(node), self.reported(node, second))

    def reported(self, node: int, second: int) -> NodeReport:
        """Return a node's report at this second."""
        held = self._held.get(prefix_of(node), 0)
        free = {**TOTAL, "GPU": float(GPUS - held), "CPU": TOTAL["CPU"] - held - second % 8}
        return NodeReport(available=free, devices={"GPU": [0] * held + [SCALE] * (GPUS - held)})

    def _send(self, prefix: bytes, message: Any) -> None:
        if not isinstance(message, View):  # messages to all nodes, which no simulated node reads
            self._sent.append((prefix, message))

    def settle(self) -> None:
        """Let time pass until no node receives further messages."""
        while self._turn():
            pass

    def _turn(self) -> bool:
        """Let one turn of time pass, in which nodes carry out orders. Returns whether they received
        any orders.
        """
        self.time.now += _TURN_S
        self.control.on_tick(self.time.now)
        self.control.on_round(self.time.now)
        if self._journal is not None:
            self._journal.drain()
        sent, self._sent[:] = list(self._sent), []
        for prefix, message in sent:
            self._do(prefix, message)
        return any(isinstance(message, _ORDERS) for _, message in sent)

    def _do(self, prefix: bytes, message: Any) -> None:
        match message:
            case PrepareBundles():
                first = self._held.get(prefix, 0)
                self._held[prefix] = first + len(message.bundles)
                devices: dict[int, dict[str, list[int]]] = {
                    bundle: {"GPU": [first + at]} for at, bundle in enumerate(message.bundles)
                }
                answer: Any = Prepared(message.group, message.attempt, True, devices, [1])
            case CommitBundles():
                answer = Committed(message.group, message.attempt, True)
            case StartMember():
                answer = MemberNews(message.group, message.index, message.attempt, log="x")
            case PlaceActor():
                worker = self._make_worker(prefix)
                placed = ActorPlaced(message.actor, message.incarnation, worker, 1)
                self.control.on_message(prefix, placed)
                answer = Via(worker, encode_body([ActorReady(message.actor)]))
            case _:
                return
        self.control.on_message(prefix, answer)

    def _make_worker(self, prefix: bytes) -> bytes:
        self._workers += 1
        return prefix + self._workers.to_bytes(PROCESS_ID_BYTES - len(prefix), "big")


def prefix_of(node: int) -> bytes:
    """Return the prefix of the ids of a node's processes."""
    return node.to_bytes(6, "big")


def gpu_job(name: str, members: int = 1) -> JobSpec:
    """Return a job whose members hold one CPU and one GPU each, and start together."""
    process = Process(command=("train",), requests=(("CPU", 1.0), ("GPU", 1.0)))
    group = TaskGroup(
        name="worker",
        replicas=members,
        min_available=members,
        template=Template(processes=(process,)),
    )
    return JobSpec(name=name, groups=(group,), min_available=members)


def _raise(error: Exception) -> NoReturn:
    raise error
