"""The scheduler's thread: the control store's machines between programs, Runners and Ray."""

from __future__ import annotations

import itertools
import os
import sys
import time
import traceback
from collections.abc import Callable
from typing import Any

import msgspec

from phalanx.control.nodes import HealthLimits, NodeRecord
from phalanx.engines.embedded.head.batch.gangs import WORDS
from phalanx.engines.embedded.head.books import Books
from phalanx.engines.embedded.head.process import storage_name
from phalanx.engines.embedded.head.shell import ControlShell
from phalanx.engines.ray.scheduler.fleet import Fleet
from phalanx.engines.ray.scheduler.gates import Gates
from phalanx.engines.ray.scheduler.kv_shard import KvShard
from phalanx.engines.ray.scheduler.loop import Loop
from phalanx.engines.ray.scheduler.options import SchedulerOptions
from phalanx.engines.ray.scheduler.ray_calls import InternalKv
from phalanx.engines.ray.scheduler.ray_groups import NODE_LABEL, RayGroups
from phalanx.engines.ray.scheduler.reservation import Amounts, Key, Reservations, Row
from phalanx.engines.ray.scheduler.runner import RunnerSetup
from phalanx.engines.ray.scheduler.view import Naming, RayNode, merged
from phalanx.model.lifecycle import DEAD
from phalanx.node.bundle_table import Inventory
from phalanx.protocol.cluster_messages import Answer, Ask, NodeReport
from phalanx.protocol.frames import decode_body, encode_body
from phalanx.storage.errors import StorageError
from phalanx.storage.opening import open_storage
from phalanx.storage.storage import Storage

CLIENTS = b""
"""Stands for the node of those who ask, and who are no nodes."""
READY_WITHIN_S = 30.0
"""Questions wait at most so long for the Runners of a cluster that was not known before."""
RESTART_RUNNER_S = 5.0
SWEEP_EVERY_S = 30.0
JOB_BYTES = 4
"""The ids of processes end with those of Ray's jobs."""
SILENT_S = 2.0
"""A Runner that has said nothing for so long is looked for, and started anew if it has ended."""
KV_NAMESPACE = b"phalanx-scheduler"
_RESERVATIONS = "reservations"

Answered = Callable[[tuple[Any, tuple[str, str] | None]], None]


class RayControl(ControlShell):
    """The control store, with a gate through which its words pass."""

    def __init__(self, brain: Brain, books: Books, limits: HealthLimits) -> None:
        self._brain = brain
        super().__init__(brain.send, books, limits)

    def on_message(self, prefix: bytes, message: Any) -> None:
        """A node says something; what of it concerns Ray is dealt with before."""
        passed = self._brain.reservations.incoming(prefix, self._brain.seen(prefix, message))
        if passed is not None:
            super().on_message(prefix, passed)
        if isinstance(message, Ask) and message.method == "join" and self.is_connected(prefix):
            there = msgspec.convert(message.args["bundles"], Inventory)
            held = {(group, index) for group, index, _, _ in there.held}
            self._brain.reservations.joined(prefix, held)

    def reply(self, prefix: bytes, answer: Answer) -> None:
        """To who asked, once all that the answer speaks of is written."""
        if prefix == CLIENTS:
            self.books.when_written(lambda: self._brain.answer(answer))
        else:
            super().reply(prefix, answer)

    def free_changed(self, prefix: bytes, report: NodeReport, heard: float) -> None:
        """Ray has other amounts free on a node that was last heard of then."""
        self._report(prefix, report, heard)

    def node_dead(self, record: NodeRecord, reason: str) -> None:
        """A node is given up."""
        self._brain.reservations.node_dead(record.prefix)
        super().node_dead(record, reason)


class Brain:
    """Everything here runs in the loop's thread, but for the methods that say so."""

    def __init__(self, options: SchedulerOptions) -> None:
        self._options = options
        self._naming = Naming(options.gpu_resource)
        self._loop = Loop("phalanx-scheduler", self._tick, self._round)
        self._groups = RayGroups(options.reserve_s)
        self._fleet = Fleet(self._look, self._groups)
        self.reservations = Reservations(self)
        self._control: RayControl
        self._gates: Gates
        self.epoch = 0
        self._tokens = itertools.count(1)
        self._answers: dict[int, Answered] = {}
        self._questions: list[Callable[[], None]] | None = []
        """Those that wait until the nodes are known; None: they are."""
        self._ready_at = 0.0
        self._sweep_at = time.monotonic() + SWEEP_EVERY_S
        self._runners: dict[bytes, Any] = {}
        """Handles of the Runners that have joined, by prefix."""
        self._outbox: dict[bytes, list[Any]] = {}
        self._living: dict[str, RayNode] = {}
        self._free: dict[str, Amounts] = {}
        self._reports: dict[bytes, NodeReport] = {}
        """What each Runner said last, and when that was."""
        self._heard: dict[bytes, float] = {}
        self._runner_started: dict[str, float] = {}

    # ---- from other threads ------------------------------------------------------------------

    def start(self) -> None:
        """Open the books and go on from there. From any thread."""
        self._loop.start(self._begin)

    def call(self, action: Callable[[], None]) -> None:
        """Do something in the loop's thread. From any thread."""
        self._loop.call(action)

    def ask(self, origin: bytes, method: str, args: dict[str, Any], answered: Answered) -> None:
        """Answer a question, now or later. From any thread."""
        self._loop.call(lambda: self._asked(origin, method, args, answered))

    def told(
        self, prefix: bytes, body: bytes, runner: Any, answered: Callable[[tuple[int, bool]], None]
    ) -> None:
        """A Runner says something. From any thread."""
        self._loop.call(lambda: self._told(prefix, body, runner, answered))

    def _look(self, rows: list[dict[str, Any]], free: dict[str, Amounts], ended: set[str]) -> None:
        self._loop.call(lambda: self._viewed(self._naming.living(rows), free))
        self._loop.call(lambda: self._jobs_ended(ended))

    # ---- beginning ---------------------------------------------------------------------------

    def _begin(self) -> None:
        options = self._options
        try:
            storage = open_store(options.store)
            self.epoch = storage.epoch
            rows = [msgspec.msgpack.decode(row, type=Row) for _, row in storage.load(_RESERVATIONS)]
            silence_s = options.ttl_s + options.margin_s
            limits = HealthLimits(
                period_s=silence_s,
                misses=1,
                joining_s=0.0,
                reconnect_s=silence_s,
                restored_s=options.ttl_s,
            )
            books = Books(storage, storage_name(options.store))
            self._control = RayControl(self, books, limits)
        except Exception as error:
            traceback.print_exc()
            self._give_up(error)
        self._control.address = "ray"
        self._gates = Gates(self._control)
        journal = self._control.books.journal
        assert journal is not None
        self._loop.read_from(journal.fileno(), self._deliver)
        self._adopt(rows)
        if self._control.nodes.living():
            self._questions = None
        self._ready_at = time.monotonic() + READY_WITHIN_S
        self._fleet.start()

    def _adopt(self, rows: list[Row]) -> None:
        """Match what was reserved with what gangs have; the rest goes back."""
        there = self._groups.adopt()
        held: dict[Key, dict[tuple[bytes, int], int]] = {}
        for row in rows:
            key = (row.group, row.attempt)
            group = self._control.group_table.get(row.group)
            places = {}
            for prefix, index, at in row.bundles:
                record = self._control.nodes.of_prefix(prefix)
                if group is None or record is None or index >= len(group.nodes):
                    continue
                if group.nodes[index] == record.node_id:
                    places[prefix, index] = at
            if places and there.get(key) != "PENDING":  # Ray knows of none that asks for nothing
                held[key] = places
                there.pop(key, None)
            else:
                self.keep(key, None)
        self.reservations.restore(held)
        for key in there:
            self._groups.withdraw(key, lambda: None)

    def _give_up(self, error: Exception) -> None:
        """Nothing may be decided that is not written: Ray starts the scheduler anew, or another
        one is in charge."""
        print(f"phalanx: the scheduler ends: {error}", file=sys.stderr, flush=True)
        os._exit(1)

    # ---- time --------------------------------------------------------------------------------

    def _tick(self, now: float) -> None:
        self._control.on_tick(now)
        self._gates.tick(now)
        if self._questions is not None and now >= self._ready_at:
            self._know_nodes()
        if now >= self._sweep_at:
            self._sweep_at = now + SWEEP_EVERY_S
            self._sweep()

    def _round(self) -> None:
        self._loop.wake_at = self._control.on_round(time.monotonic())
        try:
            self._control.books.flush()
        except StorageError as error:
            self._give_up(error)
        outbox, self._outbox = self._outbox, {}
        for prefix, messages in outbox.items():
            runner = self._runners.get(prefix)
            if runner is not None:
                runner.receive.remote(self.epoch, encode_body(messages))

    def _deliver(self) -> None:
        journal = self._control.books.journal
        assert journal is not None
        try:
            journal.deliver()
        except StorageError as error:
            self._give_up(error)

    def _sweep(self) -> None:
        """What went wrong before leaves nothing behind."""
        batch = self._control.batch_if_used
        self.reservations.forget_all_but(batch.ledger.gangs if batch is not None else ())
        self._fleet.sweep(self.reservations.keys)

    # ---- questions ---------------------------------------------------------------------------

    def _asked(self, origin: bytes, method: str, args: dict[str, Any], answered: Answered) -> None:
        if self._questions is not None:
            self._questions.append(lambda: self._asked(origin, method, args, answered))
            return
        if method == "places":
            answered((self._places(**args), None))
            return
        if method == "member_state":
            answered((self._member_state(**args), None))
            return
        if method.startswith("gate."):
            self._gates.answer(origin, method, args, answered)
            return
        if method == "batch.explain":
            answered = self._with_refusals(args, answered)
        token = next(self._tokens)
        self._answers[token] = answered
        self._control.requests.answer(CLIENTS, Ask(token, origin, method, args))

    def answer(self, answer: Answer) -> None:
        """The control store answers somebody."""
        answered = self._answers.pop(answer.token, None)
        if answered is not None:
            answered((answer.result, answer.error))

    def _with_refusals(self, args: dict[str, Any], answered: Answered) -> Answered:
        """An explanation says as well what only Ray knows: why it has refused what was planned."""
        gang = self._control.batch.asking.find(args.get("name", ""))
        count = 0 if gang is None else self.reservations.refusals(gang.group)
        if not count:
            return answered

        def more(answer: tuple[Any, tuple[str, str] | None]) -> None:
            if answer[0] is not None:
                reason = refusal(count, self._options.reserve_s)
                answer[0]["reasons"] = [reason, *answer[0]["reasons"]]
            answered(answer)

        return more

    def _know_nodes(self) -> None:
        questions, self._questions = self._questions or [], None
        for question in questions:
            question()

    def _member_state(self, group: bytes, index: int) -> str:
        """Of a member of a gang, as listings call it; empty when there is no such gang."""
        gang = self._control.batch.ledger.gangs.get(group)
        return "" if gang is None else WORDS[gang.states[index]]

    def _places(self, group: bytes) -> dict[int, dict[str, Any]]:
        """Where each member of a gang is that has its place: Ray's placement group and the bundle
        in it (-1: it asks for nothing), its node, and what it is told of its gang."""
        batch = self._control.batch
        gang = batch.ledger.gangs.get(group)
        if gang is None:
            return {}
        views, nodes = batch.placing.views(gang), batch.ledger.nodes_of(gang)
        found = {}
        for index, (attempt, at) in sorted(self.reservations.places(group).items()):
            if index in views:
                found[index] = {
                    "placement_group": self._groups.id_of((group, attempt)),
                    "bundle": at,
                    "node": nodes[index],
                    "view": views[index],
                    "state": WORDS[gang.states[index]],
                }
        return found

    # ---- nodes -------------------------------------------------------------------------------

    def _told(
        self, prefix: bytes, body: bytes, runner: Any, answered: Callable[[tuple[int, bool]], None]
    ) -> None:
        if runner is not None:
            self._runners[prefix] = runner
        for message in decode_body(body):
            try:
                self._control.on_message(prefix, message)
            except Exception:
                traceback.print_exc()  # a defect of ours: the node is not to die of it
        is_joined = self._control.is_connected(prefix)
        if is_joined:
            self._heard[prefix] = time.monotonic()
            self._runner_started.pop(self.ray_node(prefix), None)
        answered((self.epoch, is_joined))
        if is_joined and self._questions is not None and self._all_are_here():
            self._know_nodes()

    def seen(self, prefix: bytes, message: Any) -> Any:
        """A node's words as the control store is to hear them: what is free there, Ray knows."""
        if isinstance(message, NodeReport):
            self._reports[prefix] = msgspec.structs.replace(message, total=None)
            return merged(message, self._free_on(prefix))
        return message

    def _free_on(self, prefix: bytes) -> Amounts | None:
        return self._free.get(self.ray_node(prefix))

    def ray_node(self, prefix: bytes) -> str:
        """The id by which Ray knows a node of ours."""
        record = self._control.nodes.of_prefix(prefix)
        return "" if record is None else record.labels.get(NODE_LABEL, record.node_id)

    def _viewed(self, living: dict[str, RayNode], free: dict[str, Amounts]) -> None:
        self._living = living
        self._free = {node: self._naming.ours(amounts) for node, amounts in free.items()}
        joined = set()
        for record in self._control.nodes.living():
            node = self.ray_node(record.prefix)
            is_here = self._control.is_connected(record.prefix)
            if is_here and node not in living:
                self._runners.pop(record.prefix, None)
                self._control.on_lost(record.prefix)  # given up once its Runner must have ended all
            elif is_here:
                if time.monotonic() < self._heard[record.prefix] + SILENT_S:
                    joined.add(node)  # else its Runner has perhaps ended
                self._report_again(record)
        for node_id, there in living.items():
            if node_id not in joined:
                self._want_runner(there)

    def _report_again(self, record: NodeRecord) -> None:
        """Tell the control store what Ray has free now, if that has changed."""
        last = self._reports.get(record.prefix)
        if last is None:
            return
        report = merged(
            msgspec.structs.replace(last, total=record.totals), self._free_on(record.prefix)
        )
        if report.available != self._control.nodes.row(record.node_id).available:
            report.total = None
            self._control.free_changed(record.prefix, report, self._heard[record.prefix])

    def _want_runner(self, node: RayNode) -> None:
        now = time.monotonic()
        if now < self._runner_started.get(node.node_id, 0.0) + RESTART_RUNNER_S:
            return
        self._runner_started[node.node_id] = now
        known = self._control.nodes.get(node.node_id)
        is_dead = known is not None and known.state == DEAD
        self._fleet.start_runner(
            RunnerSetup(
                ray_node=node.node_id,
                # Who was given up comes back as another, and holds nothing.
                node_id=os.urandom(28).hex() if is_dead else node.node_id,
                host=node.host,
                totals=node.totals,
                labels={**node.labels, NODE_LABEL: node.node_id},
                options=self._options,
            )
        )

    def _jobs_ended(self, ended: set[str]) -> None:
        """What these drivers' jobs own goes."""
        batch = self._control.batch_if_used
        gangs = list(batch.ledger.gangs.values()) if batch is not None else []
        owners = {gang.creator for gang in gangs if gang.creator}
        self._fleet.has_owners = bool(owners)
        for owner in sorted(owners):
            if owner[-JOB_BYTES:].hex() in ended:
                self._control.process_ended(owner, True, time.monotonic())

    def _all_are_here(self) -> bool:
        here = {
            self.ray_node(record.prefix)
            for record in self._control.nodes.living()
            if self._control.is_connected(record.prefix)
        }
        return bool(self._living) and set(self._living) <= here

    # ---- effects of the control store and of reservations ------------------------------------

    def send(self, prefix: bytes, message: Any) -> None:
        """Tell a node something, with all else that this round has for it."""
        self.reservations.outgoing(prefix, message)
        self._outbox.setdefault(prefix, []).append(message)

    def deliver(self, prefix: bytes, message: Any) -> None:
        """See ReservationEffects."""
        ControlShell.on_message(self._control, prefix, message)

    def reserve(self, key: Key, bundles: list[tuple[bytes, Amounts]]) -> None:
        """See ReservationEffects."""
        chosen = [(self.ray_node(prefix), self._naming.rays(each)) for prefix, each in bundles]

        def done(is_there: bool) -> None:
            machine = self.reservations
            self._loop.call(lambda: machine.granted(key) if is_there else machine.refused(key))

        self._groups.reserve(key, chosen, done)

    def withdraw(self, key: Key) -> None:
        """See ReservationEffects."""

        self._groups.withdraw(key, lambda: self._loop.call(lambda: self.reservations.freed(key)))

    def keep(self, key: Key, row: Row | None) -> None:
        """See ReservationEffects."""
        self._control.books.keep(_RESERVATIONS, key[0] + key[1].to_bytes(8, "big"), row)


def open_store(store: tuple[str, ...]) -> Storage:
    """The store of this name. Raises what `open_storage` raises."""
    if store == ("kv",):
        return Storage([KvShard(InternalKv(KV_NAMESPACE), "Ray's key-value store")])
    return open_storage(store)


def refusal(count: int, reserve_s: float) -> dict[str, Any]:
    """Why a gang waits whose places Ray would not give, in the form of `explain`'s reasons."""
    return {
        "reason": "reservation-refused",
        "count": count,
        "detail": {"waited_s": reserve_s},
        "sentence": (
            f"Ray did not reserve its places within {reserve_s:g} s, {count} times by now, "
            "although its nodes seemed to have room"
        ),
        "change": (
            "see which tasks, actors or placement groups outside of queues wait for the same "
            "resources; on dedicated nodes there are none"
        ),
    }
