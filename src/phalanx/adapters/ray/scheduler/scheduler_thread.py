"""The thread of the scheduler's actor: it runs the head, and connects it with programs, node agents
and Ray.
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec

from phalanx.adapters.ray.scheduler.batch_requests import BatchRequests
from phalanx.adapters.ray.scheduler.control import CLIENTS, RayHead
from phalanx.adapters.ray.scheduler.fleet import Fleet
from phalanx.adapters.ray.scheduler.kv_shard import KvShard
from phalanx.adapters.ray.scheduler.node_agents import NodeAgents
from phalanx.adapters.ray.scheduler.options import SchedulerOptions
from phalanx.adapters.ray.scheduler.ray_calls import InternalKv
from phalanx.adapters.ray.scheduler.ray_groups import RayGroups
from phalanx.adapters.ray.scheduler.requests import OnReply, SchedulerRequests
from phalanx.adapters.ray.scheduler.reservation import Amounts, Reservations, Row, Whole
from phalanx.adapters.ray.scheduler.stages import Stages
from phalanx.adapters.ray.scheduler.view import Naming
from phalanx.head.nodes.liveness import HealthLimits
from phalanx.head.state_store import StateStore, read_state
from phalanx.model.ids import AttemptId
from phalanx.protocol.asking import Reply
from phalanx.protocol.cluster_messages import ForwardedReply
from phalanx.protocol.frames import decode_body
from phalanx.protocol.membership_messages import Join
from phalanx.protocol.report_messages import NodeReport
from phalanx.protocol.requests.request import NOTHING
from phalanx.protocol.wire_errors import WireError, to_wire
from phalanx.runtime.os.loop import Loop
from phalanx.runtime.os.own_time import own_time
from phalanx.runtime.os.peer_identity import own_principal
from phalanx.storage.errors import StaleEpochError, StorageError, StorageUnreachableError
from phalanx.storage.journal import Journal
from phalanx.storage.naming import storage_name
from phalanx.storage.opening import open_storage
from phalanx.storage.storage import Storage

READY_WITHIN_S = 30.0
"""The most seconds for which the first requests to a new scheduler wait for the agents of the
cluster's nodes.
"""
SWEEP_EVERY_S = 30.0
MAX_UNDER_WAY = 2_000
"""No cycle runs while Ray has reservations to make for more than this number of gangs. Ray reserves
places more slowly than cycles assign them, and nodes do not keep prepared bundles forever.
"""
NEVER = float("inf")
JOB_BYTES = 4
"""The number of bytes at the end of a process's id that identify its Ray job."""
KV_NAMESPACE = b"phalanx-scheduler"
RESERVATIONS = "ray_reservations"

OnTakenIn = Callable[[bool], None]


class SchedulerThread:
    """The scheduler's loop. All methods run in the scheduler's thread unless they say otherwise."""

    def __init__(self, options: SchedulerOptions) -> None:
        self._options = options
        self._naming = Naming(options.gpu_resource)
        self._loop = Loop(self._tick, self._round)
        self._groups = RayGroups(options.reserve_s)
        self._fleet = Fleet(self._look, self._groups)
        self._reservations = Reservations(self)
        self._stages = Stages()
        self._journal: Journal
        self._control: RayHead
        self._agents: NodeAgents
        self._requests: SchedulerRequests
        self._epoch = 0
        self._ready_at = self._sweep_at = NEVER
        self._defect: WireError | None = None
        """The error that prevented the start of a head with these options; None if there is a head.
        """

    # ---- from other threads ------------------------------------------------------------------

    def start(self) -> None:
        """Open the store and continue from its content. May be called from any thread."""
        self._loop.start_thread("phalanx-scheduler", self._begin)

    def call(self, action: Callable[[], None]) -> None:
        """Run a function in the loop's thread. May be called from any thread."""
        self._loop.call(action)

    def ask(self, origin: bytes, kind: int, body: bytes, replied: OnReply) -> None:
        """Answer a request, now or later. May be called from any thread."""
        self._loop.call(lambda: self._ask(origin, kind, body, replied))

    def from_node(self, prefix: bytes, body: bytes, agent: Any, taken_in: OnTakenIn) -> None:
        """Handle messages of a node agent, and report whether its node has joined. May be called
        from any thread.
        """
        self._loop.call(lambda: self._from_node(prefix, body, agent, taken_in))

    def _look(self, rows: list[dict[str, Any]], free: dict[str, Amounts], ended: set[str]) -> None:
        self._loop.call(lambda: self._agents.viewed(rows, free))
        self._loop.call(lambda: self._jobs_ended(ended))

    # ---- start -------------------------------------------------------------------------------

    def _begin(self) -> None:
        try:
            self._open()
        except (StorageUnreachableError, StaleEpochError) as error:
            self._give_up(error)  # the next start may succeed
        except Exception as error:
            traceback.print_exc()
            text = f"The scheduler on Ray cannot start: {error}"
            self._defect = WireError(to_wire(error).code, text)
            return
        self._ready_at = own_time() + READY_WITHIN_S
        self._sweep_at = own_time() + SWEEP_EVERY_S
        self._fleet.start()

    def _open(self) -> None:
        options = self._options
        storage = open_store(options.store)
        self._epoch = storage.epoch
        rows = [msgspec.msgpack.decode(row, type=Row) for _, row in storage.load(RESERVATIONS)]
        silence_s = options.ttl_s + options.margin_s
        limits = HealthLimits(
            period_s=silence_s,
            misses=1,
            joining_s=0.0,
            reconnect_s=silence_s,
            restored_s=options.ttl_s,
        )
        # Restored state is sent to nobody: no agent has joined yet.
        stored = read_state(storage)
        self._journal = Journal(storage)
        state_store = StateStore(self._journal, storage_name(options.store))
        self._control = RayHead(self, state_store, stored, limits, options.placement)
        self._control.address = "ray"
        self._agents = NodeAgents(
            self._control.nodes,
            self._control,
            options,
            self._naming,
            self._fleet.start_agent,
            self._loop.call,
        )
        self._requests = SchedulerRequests(
            partial(self._control.answering.answer, CLIENTS),
            lambda: self._control.gang_scheduler,
            BatchRequests(self._control, own_time),
            self._reservations,
            self._groups,
            self._stages,
            options.reserve_s,
            own_principal(),
        )
        self._loop.read_from(self._journal.fileno(), self._deliver)
        self._adopt(rows)
        if self._control.nodes.living():
            self._requests.begin()

    def _adopt(self, rows: list[Row]) -> None:
        """Keep those of Ray's placement groups in which gangs still hold places, and remove all
        others. `rows`: the stored reservations.
        """
        there = self._groups.adopt()
        held: dict[AttemptId, dict[tuple[bytes, int], int]] = {}
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
            # Ray does not know reservations without any amount
            if places and there.get(key) != "PENDING":
                held[key] = places
                there.pop(key, None)
            else:
                self.keep(key, None)
        self._reservations.restore(held)
        for key in there:
            self._groups.withdraw(key, lambda: None)

    def _give_up(self, error: Exception) -> None:
        """End the process, because the scheduler must not act on decisions that are not stored. Ray
        restarts the scheduler, unless another scheduler has taken over.
        """
        print(f"phalanx: the scheduler ends: {error}", file=sys.stderr, flush=True)
        os._exit(1)

    # ---- time --------------------------------------------------------------------------------

    def _tick(self, now: float) -> None:
        if self._defect is not None:
            return
        self._control.on_tick(now)
        self._requests.tick(now)
        if self._requests.are_waiting and now >= self._ready_at:
            self._requests.begin()
        if now >= self._sweep_at:
            self._sweep_at = now + SWEEP_EVERY_S
            self._sweep()

    def _round(self) -> None:
        if self._defect is not None:
            return
        is_due = self._reservations.under_way < MAX_UNDER_WAY
        self._loop.wake_at = self._control.on_round(own_time()) if is_due else NEVER
        try:
            self._control.state_store.flush()
        except StorageError as error:
            self._give_up(error)
        self._agents.flush(self._epoch)

    def _deliver(self) -> None:
        try:
            self._journal.deliver()
        except StorageError as error:
            self._give_up(error)

    def _sweep(self) -> None:
        scheduler = self._control.gangs_if_used
        self._reservations.forget_all_but(scheduler.registry.gangs if scheduler is not None else ())
        self._fleet.sweep(self._reservations.keys)

    def _jobs_ended(self, ended: set[str]) -> None:
        scheduler = self._control.gangs_if_used
        gangs = list(scheduler.registry.gangs.values()) if scheduler is not None else []
        owners = {gang.creator for gang in gangs if gang.creator}
        self._fleet.has_owners = bool(owners)
        for owner in sorted(owners):
            if owner[-JOB_BYTES:].hex() in ended:
                self._control.process_ended(owner, True, own_time())

    # ---- programs and node agents ------------------------------------------------------------

    def _ask(self, origin: bytes, kind: int, body: bytes, replied: OnReply) -> None:
        if self._defect is not None:
            replied(Reply(0, NOTHING, self._defect))
        else:
            self._requests.ask(origin, kind, body, replied)

    def _from_node(self, prefix: bytes, body: bytes, agent: Any, taken_in: OnTakenIn) -> None:
        if self._defect is not None or not self._agents.admit(prefix, agent):
            taken_in(False)
            return
        for message in decode_body(body):
            try:
                self._control.on_message(prefix, message)
            except Exception:
                traceback.print_exc()  # an internal error must not end the node
        is_joined = self._control.is_connected(prefix)
        if is_joined:
            self._agents.heard(prefix)
        taken_in(is_joined)
        if is_joined and self._requests.are_waiting and self._agents.are_all_here:
            self._requests.begin()

    # ---- between the head and its nodes and programs -----------------------------------------

    def send(self, prefix: bytes, message: Any) -> None:
        """Update the reservations, and send a message to a node."""
        self._reservations.outgoing(prefix, message)
        self._agents.post(prefix, message)

    def incoming(self, prefix: bytes, message: Any, take_in: Callable[[Any], None]) -> None:
        """Update the reservations, and pass a message of a node to the head."""
        if isinstance(message, NodeReport):
            message = self._agents.reported(prefix, message)
        passed = self._reservations.incoming(prefix, message)
        if passed is not None:
            take_in(passed)
        if isinstance(message, Join) and self._control.is_connected(prefix):
            held = {(group, index) for group, index, _, _ in message.bundles.held}
            self._reservations.joined(prefix, held)

    def replied(self, reply: ForwardedReply) -> None:
        """Pass on a reply for a program or a visitor."""
        self._requests.replied(reply)

    def node_dead(self, prefix: bytes) -> None:
        """End the reservations on a node that the head has declared dead."""
        self._reservations.node_dead(prefix)

    # ---- effects of reservations -------------------------------------------------------------

    def deliver(self, prefix: bytes, message: Any) -> None:
        self._control.take_in(prefix, message)

    def whole(self, key: AttemptId) -> Whole | None:
        """Return an attempt whose nodes still have to prepare bundles."""
        return self._control.whole(*key)

    def reserve(self, key: AttemptId, bundles: list[tuple[bytes, Amounts]]) -> None:
        """Ask Ray for a placement group."""
        named = [
            (self._agents.ray_node(prefix), self._naming.rays(each)) for prefix, each in bundles
        ]

        def done(is_there: bool) -> None:
            self._loop.call(lambda: self._reserved(key, is_there))

        self._stages.begin(key[0], own_time())
        self._groups.reserve(key, named, done)

    def _reserved(self, key: AttemptId, is_there: bool) -> None:
        if is_there:
            self._stages.reserved(key[0], own_time())
            self._reservations.granted(key)
        else:
            self._reservations.refused(key)

    def withdraw(self, key: AttemptId) -> None:
        self._groups.withdraw(key, lambda: self._loop.call(lambda: self._reservations.freed(key)))

    def keep(self, key: AttemptId, row: Row | None) -> None:
        """Store a reservation. If `row` is None, remove it from the store."""
        self._control.state_store.keep(RESERVATIONS, key[0] + key[1].to_bytes(8, "big"), row)


def open_store(store: tuple[str, ...]) -> Storage:
    """Open the store of this name. Raises the errors of `open_storage`."""
    if store == ("kv",):
        return Storage([KvShard(InternalKv(KV_NAMESPACE), "Ray's key-value store")])
    return open_storage(store)
