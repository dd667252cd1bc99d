"""What the table of actors asks for: nodes found, creations sent, news told."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from phalanx.control.actors import ActorRecord
from phalanx.control.nodes import NodeRecord
from phalanx.model.ids import PREFIX_BYTES
from phalanx.model.lifecycle import DEAD
from phalanx.node.spilling import terms_of
from phalanx.policies.outcome import Placed
from phalanx.policies.strategy import Asking
from phalanx.policies.entry import pick_node, strategy
from phalanx.protocol.cluster_messages import (
    ActorLost,
    ActorPlaced,
    ActorRefused,
    EndActor,
    PlaceActor,
    WithdrawActor,
)
from phalanx.protocol.messages import ActorReady, ActorUpdate, Refused
from phalanx.resources.sets import ResourceSet

if TYPE_CHECKING:
    from phalanx.engines.embedded.head.shell import ControlShell


class ActorShell:
    """Does what `ActorTable` asks for, and turns nodes' news into its events."""

    def __init__(self, shell: ControlShell) -> None:
        self._shell = shell
        self._pids: dict[bytes, int] = {}
        self._placed_on: dict[bytes, str] = {}
        self._unplaced: dict[bytes, ActorRecord] = {}
        """Actors that no node can have now."""
        self._exit_waiters: dict[bytes, list[Callable[[], None]]] = {}

    # ---- effects -----------------------------------------------------------------------------

    def place_actor(self, record: ActorRecord) -> None:
        """See ActorEffects."""
        self._shell.books.put_actor(record)
        self._place(record)

    def _place(self, record: ActorRecord) -> None:
        node_id = self._pick(record)
        if node_id is None:
            self._unplaced[record.actor] = record
            return
        self._unplaced.pop(record.actor, None)
        self._placed_on[record.actor] = node_id
        node = self._shell.nodes.get(node_id)
        assert node is not None
        self._shell.jobs.tell(node.prefix, record.job, record.environment)
        self._shell.send(
            node.prefix,
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

    def _pick(self, record: ActorRecord) -> str | None:
        view = self._shell.nodes.cluster.view
        if self._shell.is_alone:
            return view.nodes.states[0].id
        terms = terms_of(record.strategy, ResourceSet.from_mapping(record.place))
        if record.strategy.get("group"):
            group = bytes.fromhex(record.strategy["group"])
            nodes = self._shell.group_table.nodes_of(group, record.strategy["bundle"])
            return nodes[0] if nodes else None
        owner = self._shell.nodes.of_prefix(record.owner[:PREFIX_BYTES])
        local = None if owner is None else owner.node_id
        outcome = pick_node(
            view,
            terms.request,
            Asking(local=local, preferred=local),
            self._shell.rng,
            strategy=terms.strategy or strategy("DEFAULT"),
            fallbacks=terms.fallbacks,
            creates_actor=True,
        )
        return outcome.node if isinstance(outcome, Placed) else None

    def withdraw_actor(self, record: ActorRecord) -> None:
        """See ActorEffects."""
        self._unplaced.pop(record.actor, None)
        node_id = self._placed_on.pop(record.actor, None)
        if node_id is not None:
            self._shell.send_node(node_id, WithdrawActor(record.actor))

    def create_on(self, record: ActorRecord) -> None:
        """See ActorEffects: the node has had it made at once."""

    def end_worker(self, record: ActorRecord, reason: str, force: bool) -> None:
        """See ActorEffects."""
        prefix = record.worker[:PREFIX_BYTES]
        self._shell.send(prefix, EndActor(record.worker, reason, force))

    def publish(self, record: ActorRecord, watchers: list[bytes]) -> None:
        """See ActorEffects."""
        self._shell.books.put_actor(record)
        update = ActorUpdate(
            record.actor,
            record.state,
            record.incarnation,
            record.worker,
            record.reason,
            record.error,
        )
        for watcher in watchers:
            self._shell.post(watcher, update)

    # ---- what nodes say ----------------------------------------------------------------------

    def placed(self, prefix: bytes, message: ActorPlaced) -> None:
        """A worker makes the actor."""
        self._pids[message.worker] = message.pid
        record = self._shell.actor_table.get(message.actor)
        is_wanted = record is not None and record.incarnation == message.incarnation
        if not is_wanted or not self._shell.actor_table.placed(message.actor, message.worker):
            self._shell.send(prefix, EndActor(message.worker, "the actor is not wanted", True))

    def ready(self, worker: bytes, message: ActorReady) -> None:
        """Its constructor returned."""
        self._shell.actor_table.ready(message.actor, worker, self._pids.get(worker, 0))

    def lost(self, message: ActorLost) -> None:
        """Its worker ended."""
        self._pids.pop(message.worker, None)
        self._shell.actor_table.worker_died(message.actor, message.worker, message.reason)
        for action in self._exit_waiters.pop(message.worker, ()):
            action()

    def when_gone(self, worker: bytes, action: Callable[[], None]) -> None:
        """Do something once an actor's worker has ended."""
        if worker in self._pids:
            self._exit_waiters.setdefault(worker, []).append(action)
        else:
            action()

    def refused(self, prefix: bytes, message: ActorRefused) -> None:
        """A node cannot have it."""
        record = self._shell.actor_table.get(message.actor)
        if record is None or record.state == DEAD:
            return
        if message.error:
            self._shell.actor_table.refused(message.actor, message.reason, message.error.encode())
            return
        text = f"Actor {record.class_name} cannot be placed now: {message.reason}."
        self._shell.jobs.warn(record.job, Refused(0, text, False, ""))

    def node_died(self, record: NodeRecord, reason: str, now: float) -> None:
        """A node is given up, and its actors with it."""

    def node_joined(
        self, node_id: str, actors: dict[bytes, bytes], processes: set[bytes], now: float
    ) -> None:
        """A node says which actors it has."""

    def tick(self, now: float) -> None:
        """Try again what no node could have."""
        for record in list(self._unplaced.values()):
            self._place(record)
