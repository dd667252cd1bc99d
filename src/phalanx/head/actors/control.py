"""What the table of actors asks for: nodes found, creations sent, news told."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from phalanx.head.actors.placement import ActorPlacing, Choice
from phalanx.head.actors.table import ActorRecord
from phalanx.head.nodes import NodeRecord
from phalanx.model.ids import PREFIX_BYTES
from phalanx.model.lifecycle import DEAD
from phalanx.protocol.cluster_messages import (
    ActorLost,
    ActorPlaced,
    ActorRefused,
    EndActor,
    PlaceActor,
    WithdrawActor,
)
from phalanx.protocol.node_messages import ActorReady, ActorUpdate, Refused

if TYPE_CHECKING:
    from phalanx.head.control_plane import ControlPlane


class ActorControl:
    """Does what `ActorTable` asks for, and turns nodes' news into its events."""

    def __init__(self, shell: ControlPlane, placing: ActorPlacing) -> None:
        self._shell = shell
        self._placing = placing
        self._pids: dict[bytes, int] = {}
        self._exit_waiters: dict[bytes, list[Callable[[], None]]] = {}
        self._must_look = False

    # ---- effects -----------------------------------------------------------------------------

    def place_actor(self, record: ActorRecord) -> None:
        """See ActorEffects."""
        owner = self._shell.nodes.of_prefix(record.owner[:PREFIX_BYTES])
        is_there = owner is not None and self._shell.nodes.is_alive(owner.node_id)
        choice = self._placing.place(record, owner.node_id if owner and is_there else "")
        self._follow(record, choice)

    def _follow(self, record: ActorRecord, choice: Choice) -> None:
        """Ask the chosen node for a worker, or tell why there is none."""
        if record.node and record.node != choice.node:
            self._shell.order(record.node, WithdrawActor(record.actor))
        self._shell.actor_table.sent(record.actor, choice.node)
        self._shell.state_store.put_actor(record)
        if choice.code:
            self._shell.actor_table.refused(record.actor, choice.reason, choice.code)
        elif choice.node:
            self._send(record)
        elif choice.reason:
            self._warn(record, choice.reason)

    def _send(self, record: ActorRecord) -> None:
        node = self._shell.nodes.get(record.node)
        if node is None:
            return
        self._shell.jobs.tell(node.prefix, record.job, record.environment)
        if record.strategy.get("group"):
            group = self._shell.group_table.get(bytes.fromhex(record.strategy["group"]))
            if group is not None:
                self._shell.groups.watch(group, node.prefix)
        self._shell.order(
            node.node_id,
            PlaceActor(
                record.actor,
                record.incarnation,
                record.job,
                record.creation,
                record.name,
                record.namespace,
                record.place,
                record.hold,
                record.environment,
                dict(record.strategy),
                record.priority,
            ),
        )

    def _warn(self, record: ActorRecord, reason: str) -> None:
        text = f"Actor {record.class_name} cannot be placed now: {reason}."
        self._shell.jobs.warn(record.job, Refused(0, text, False, ""))

    def withdraw_actor(self, record: ActorRecord) -> None:
        """See ActorEffects."""
        if record.node:
            self._shell.order(record.node, WithdrawActor(record.actor))

    def end_worker(self, record: ActorRecord, reason: str, force: bool) -> None:
        """See ActorEffects."""
        prefix = record.worker[:PREFIX_BYTES]
        self._shell.send(prefix, EndActor(record.worker, reason, force))

    def publish(self, record: ActorRecord, watchers: list[bytes]) -> None:
        """See ActorEffects."""
        self._shell.state_store.put_actor(record)
        if record.state == DEAD:
            self._placing.gone(record.actor)
        if record.state == DEAD and record.detached:
            self._shell.jobs.actor_gone(record.job)
        update = ActorUpdate(
            record.actor,
            record.state,
            record.incarnation,
            record.worker,
            record.reason,
            record.error,
            record.code,
        )
        for watcher in watchers:
            self._shell.post(watcher, update)
        batch = self._shell.gangs_if_used
        if record.state == DEAD and batch is not None and record.strategy.get("group"):
            batch.actor_ended(bytes.fromhex(record.strategy["group"]), record.strategy["bundle"])

    # ---- what nodes say ----------------------------------------------------------------------

    def placed(self, prefix: bytes, message: ActorPlaced) -> None:
        """A worker makes the actor."""
        table = self._shell.actor_table
        record = table.get(message.actor)
        node = self._shell.nodes.of_prefix(prefix)
        is_wanted = (
            record is not None
            and node is not None
            and record.incarnation == message.incarnation
            and table.placed(message.actor, message.worker, node.node_id)
        )
        if is_wanted:
            self._pids[message.worker] = message.pid
            self._placing.placed(message.actor)
            self._shell.state_store.put_actor(record)  # type: ignore[arg-type]
        else:
            self._shell.send(prefix, EndActor(message.worker, "the actor is not wanted", True))

    def ready(self, worker: bytes, message: ActorReady) -> None:
        """Its constructor returned."""
        self._shell.actor_table.ready(message.actor, worker, self._pids.get(worker, 0))

    def lost(self, message: ActorLost) -> None:
        """Its worker ended."""
        self._pids.pop(message.worker, None)
        self._shell.actor_table.worker_died(
            message.actor, message.worker, message.reason, message.preempted
        )
        for action in self._exit_waiters.pop(message.worker, ()):
            action()

    def when_gone(self, worker: bytes, action: Callable[[], None]) -> None:
        """Do something once an actor's worker has ended."""
        if worker in self._pids:
            self._exit_waiters.setdefault(worker, []).append(action)
        else:
            action()

    def refused(self, prefix: bytes, message: ActorRefused) -> None:
        """A node cannot have it, for now or for ever."""
        record = self._shell.actor_table.get(message.actor)
        if record is None or record.state == DEAD:
            return
        if message.code:
            self._shell.actor_table.refused(message.actor, message.reason, message.code)
        else:
            self._warn(record, message.reason)

    # ---- nodes -------------------------------------------------------------------------------

    def node_died(self, record: NodeRecord, reason: str) -> None:
        """A node is given up, and its actors with it."""
        self._shell.actor_table.node_gone(record.node_id, reason)
        gone = [w for w in self._pids if w[:PREFIX_BYTES] == record.prefix]
        for worker in gone:
            del self._pids[worker]
            for action in self._exit_waiters.pop(worker, ()):
                action()

    def node_joined(self, record: NodeRecord, here: Mapping[bytes, bytes]) -> None:
        """A node says which actors it has: worker by actor, empty where one waits for it."""
        strangers = self._shell.actor_table.confirm(record.node_id, here)
        for actor in strangers:
            if here[actor]:
                told = "the actor is not wanted there any more"
                self._shell.send(record.prefix, EndActor(here[actor], told, True))
            else:
                self._shell.send(record.prefix, WithdrawActor(actor))
        for worker in here.values():
            if worker:
                self._pids.setdefault(worker, 0)

    def look_again(self) -> None:
        """Resources came free: who waits may do better elsewhere."""
        for record, choice in self._placing.better():
            self._follow(record, choice)
