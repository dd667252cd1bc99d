"""Carries out the effects of the table of actors: chooses nodes, requests workers there, and
publishes states of actors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from phalanx.errors import ActorUnschedulableError, JobNotFoundError
from phalanx.head.actors.crash_pauses import CrashPauses
from phalanx.head.actors.node_choice import ActorNodeChoice, Choice
from phalanx.head.actors.table import ActorRecord, ActorTable
from phalanx.head.drivers import Drivers
from phalanx.head.effects import HeadEffects
from phalanx.head.events.unplaceable import Unplaceable
from phalanx.head.groups.control import GroupControl
from phalanx.head.nodes.directory import NodeDirectory
from phalanx.head.nodes.record import NodeRecord
from phalanx.model.ids import PREFIX_BYTES, GroupId, group_id_of
from phalanx.model.lifecycle import ALIVE, DEAD, DEPENDENCIES_UNREADY, RESTARTING
from phalanx.model.rows.explanation import Explanation
from phalanx.protocol.actor_messages import (
    ActorHere,
    ActorLost,
    ActorPlaced,
    ActorRefused,
    EndActor,
    PlaceActor,
    WithdrawActor,
)
from phalanx.protocol.cluster_messages import View
from phalanx.protocol.node_messages import ActorReady, ActorUpdate, Refused
from phalanx.protocol.wire_errors import code_of
from phalanx.scheduler.placement.explaining import explain_outcome, explain_waiting, plain_reason
from phalanx.scheduler.placement.outcome import Outcome


class ActorControl:
    """Carries out the effects that `ActorTable` asks for, and passes reports of nodes to the table
    as events.
    """

    def __init__(
        self,
        effects: HeadEffects,
        *,
        nodes: NodeDirectory,
        groups: GroupControl,
        drivers: Drivers,
        node_choice: ActorNodeChoice,
        unplaceable: Unplaceable,
        bundle_left: Callable[[GroupId, int], None],
        kept_dead: int,
    ) -> None:
        """`bundle_left` is called with (group, index) once an actor in a bundle is permanently
        dead. `kept_dead`: the number of dead actors that are remembered.
        """
        self._outbox = effects.outbox
        self._state_store = effects.state_store
        self._clock = effects.clock
        self._meter = effects.meter
        self._event_log = effects.event_log
        self._internal_errors = effects.internal_errors
        self._nodes = nodes
        self._groups = groups
        self._drivers = drivers
        self._node_choice = node_choice
        self._unplaceable = unplaceable
        self._bundle_left = bundle_left
        self.table = ActorTable(self, kept_dead, effects.clock.wall)
        self._pids: dict[bytes, int] = {}
        self._exit_waiters: dict[bytes, list[Callable[[], None]]] = {}
        self._pauses = CrashPauses()
        self._rests_until: dict[bytes, float] = {}
        """The time, on the head's clock, at which each crashed actor starts again."""

    # ---- effects -----------------------------------------------------------------------------

    def place_actor(self, record: ActorRecord) -> None:
        """Choose a node for an actor, and ask that node for a worker, unless the actor is resting
        after a crash.
        """
        if record.actor in self._rests_until:
            return
        choice = self._node_choice.place(record, self._home(record), self._clock.now())
        self._follow(record, choice)

    def _home(self, record: ActorRecord) -> str:
        """Return the id of the node where the actor's owner runs; "" if that node is gone."""
        owner = self._nodes.of_prefix(record.owner[:PREFIX_BYTES])
        return owner.node_id if owner is not None and self._nodes.is_alive(owner.node_id) else ""

    def explain(self, name: str) -> Explanation:
        """Return why an actor is waiting. `name`: the actor's id in hex, or its name. Raises
        JobNotFoundError.
        """
        for record in self.table.all():
            if record.state != DEAD and name in (record.actor.hex(), record.name):
                break
        else:
            raise JobNotFoundError(f"no living actor is called {name!r}")
        name = record.name or record.class_name
        why: Outcome | str = "an argument of its constructor is not there yet"
        if record.state == ALIVE:
            return Explanation(
                snapshot="", name=name, kind="actor", waits=False, reasons=[], node=record.node
            )
        if record.actor in self._rests_until:
            ends = self._pauses.count(record.actor)
            why = f"it waits before it restarts: its process ended {ends} times in a row, the "
            why += f"last time because {record.reason}"
        elif record.state != DEPENDENCIES_UNREADY:
            why = self._node_choice.why(record, self._home(record), self._clock.now())
        if isinstance(why, str):
            return explain_waiting("actor", name, plain_reason(why))
        return explain_outcome("actor", name, why)

    def _follow(self, record: ActorRecord, choice: Choice) -> None:
        """Ask the chosen node for a worker, or report why no node was chosen."""
        if record.node and record.node != choice.node:
            self._outbox.order(record.node, WithdrawActor(record.actor))
        self.table.sent(record.actor, choice.node)
        self._state_store.put_actor(record)
        if choice.code:
            self.table.refused(record.actor, choice.reason, choice.code)
        elif choice.node:
            self._send(record)
        elif choice.reason:
            self._warn(record, choice.reason)
            self._unplaceable.judge([record.place])

    def _send(self, record: ActorRecord) -> None:
        node = self._nodes.get(record.node)
        if node is None:
            return
        self._drivers.introduce(node.prefix, record.job, record.environment)
        if record.strategy.get("group"):
            group = self._groups.table.get(group_id_of(record.strategy["group"]))
            if group is not None:
                self._groups.watch(group, node.prefix)
        self._outbox.order(
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
                record.max_restarts < 0 or record.restarts < record.max_restarts,
                record.state == RESTARTING,
            ),
        )

    def _warn(self, record: ActorRecord, reason: str) -> None:
        text = f"Actor {record.class_name} cannot be placed now: {reason}."
        self._drivers.warn(record.job, Refused(0, text, False, ""))

    def withdraw_actor(self, record: ActorRecord) -> None:
        """Tell the actor's node that the actor needs no worker any more."""
        if record.node:
            self._outbox.order(record.node, WithdrawActor(record.actor))

    def restarts(self, record: ActorRecord, is_crash: bool) -> None:
        """Count a restart; after a crash, let the actor rest first."""
        self._meter.add("phalanx_actor_restarts_total")
        now = self._clock.now()
        if is_crash and (pause_s := self._pauses.on_crash(record.actor, now)):
            self._rests_until[record.actor] = now + pause_s

    def tick(self, now: float) -> None:
        """Restart the actors whose rest after a crash is over."""
        for actor in [one for one, until in self._rests_until.items() if now >= until]:
            del self._rests_until[actor]
            record = self.table.get(actor)
            if record is not None and record.state == RESTARTING and not record.node:
                with self._internal_errors.kept_apart("actor", record.name or record.class_name):
                    self.place_actor(record)

    def end_worker(self, record: ActorRecord, reason: str, force: bool) -> None:
        """End the actor's process."""
        prefix = record.worker[:PREFIX_BYTES]
        self._outbox.send(prefix, EndActor(record.worker, reason, force))

    def ending(self, record: ActorRecord) -> None:
        """Store that the actor is about to end."""
        self._state_store.put_actor(record)

    def publish(self, record: ActorRecord, watchers: list[bytes]) -> None:
        """Store the actor's state, and send it to its watchers."""
        self._state_store.put_actor(record)
        if record.state == RESTARTING:
            name = record.name or f"{record.class_name} {record.actor.hex()}"
            self._event_log.note("actor-restarted", name=name, why=record.reason)
        if record.state == DEAD:
            self._node_choice.forget(record.actor)
            self._pauses.forget(record.actor)
            self._rests_until.pop(record.actor, None)
        if record.state == DEAD and record.detached:
            self._drivers.actor_gone(record.job)
        update = ActorUpdate(
            record.actor,
            record.state,
            record.incarnation,
            record.worker,
            record.reason,
            record.error,
            record.code,
            record.repr_name,
        )
        if record.state == ALIVE:
            self._pauses.on_alive(record.actor, self._clock.now())
            self._send_view_of_node(record, watchers)
        for watcher in watchers:
            self._outbox.post(watcher, update)
        if record.state == DEAD and record.strategy.get("group"):
            self._bundle_left(group_id_of(record.strategy["group"]), record.strategy["bundle"])

    def _send_view_of_node(self, record: ActorRecord, watchers: Iterable[bytes]) -> None:
        """Send the current view of the actor's node to the watchers' nodes before they hear that
        the actor is alive. Otherwise these nodes would place later work by an older view.
        """
        node = self._nodes.get(record.node)
        if node is None or not self._nodes.is_alive(record.node):
            return
        view = View([self._nodes.row(record.node)])
        for prefix in dict.fromkeys(watcher[:PREFIX_BYTES] for watcher in watchers):
            if prefix != node.prefix:
                self._outbox.send(prefix, view)

    # ---- news of nodes -------------------------------------------------------------------------

    def placed(self, prefix: bytes, message: ActorPlaced) -> None:
        """Handle a report that a worker is creating the actor."""
        record = self.table.get(message.actor)
        node = self._nodes.of_prefix(prefix)
        if (
            record is not None
            and node is not None
            and record.incarnation == message.incarnation
            and self.table.placed(message.actor, message.worker, node.node_id)
        ):
            self._pids[message.worker] = message.pid
            self._node_choice.placed(message.actor)
            self._state_store.put_actor(record)
        else:
            self._outbox.send(prefix, EndActor(message.worker, "the actor is not wanted", True))

    def ready(self, worker: bytes, message: ActorReady) -> None:
        """Handle a report that the actor's constructor returned."""
        self.table.ready(message.actor, worker, self._pids.get(worker, 0), message.repr_name)

    def lost(self, message: ActorLost) -> None:
        """Handle a report that the actor's worker ended."""
        self._pids.pop(message.worker, None)
        wall = self._clock.wall() if message.is_parent_killed else None
        self.table.worker_died(
            message.actor, message.worker, message.reason, message.preempted, message.code, wall
        )
        for action in self._exit_waiters.pop(message.worker, ()):
            action()

    def when_gone(self, worker: bytes, action: Callable[[], None]) -> None:
        """Run an action once an actor's worker has ended."""
        if worker in self._pids:
            self._exit_waiters.setdefault(worker, []).append(action)
        else:
            action()

    def refused(self, prefix: bytes, message: ActorRefused) -> None:
        """Handle a node's refusal of an actor, whether temporary or permanent."""
        record = self.table.get(message.actor)
        node = self._nodes.of_prefix(prefix)
        if record is None or record.state == DEAD or node is None or record.node != node.node_id:
            return  # the actor has died, or was sent to another node in the meantime
        if message.code == code_of(ActorUnschedulableError):
            home, now = self._home(record), self._clock.now()
            choice = self._node_choice.elsewhere(record, node.node_id, home, now)
            if choice is not None:
                self._follow(record, choice)
                return
        if message.code:
            self.table.refused(message.actor, message.reason, message.code)
        else:
            self._warn(record, message.reason)

    # ---- nodes -------------------------------------------------------------------------------

    def node_died(self, record: NodeRecord, reason: str) -> None:
        """Restart or end the actors of a dead node."""
        self.table.node_gone(record.node_id, reason, record.death, self._clock.wall())
        gone = [w for w in self._pids if w[:PREFIX_BYTES] == record.prefix]
        for worker in gone:
            del self._pids[worker]
            for action in self._exit_waiters.pop(worker, ()):
                action()

    def clock_stepped(self, step_s: float) -> None:
        """Shift the recorded times of actors' lives, and of node deaths that count against actors,
        after the wall-clock time was stepped by this many seconds.
        """
        for record in self.table.all():
            if record.node_deaths or record.began or record.ended:
                record.node_deaths = [at + step_s for at in record.node_deaths]
                record.began += step_s if record.began else 0.0
                record.ended += step_s if record.ended else 0.0
                self._state_store.put_actor(record)

    def node_joined(self, record: NodeRecord, here: Mapping[bytes, ActorHere]) -> None:
        """Compare the actors on a joining node with the table, and end those that should not run
        there.
        """
        strangers = self.table.confirm(record.node_id, here)
        for actor in strangers:
            if worker := here[actor].worker:
                reason = "the actor is not wanted there any more"
                self._outbox.send(record.prefix, EndActor(worker, reason, True))
            else:
                self._outbox.send(record.prefix, WithdrawActor(actor))
        for worker, _ in here.values():
            if worker:
                self._pids.setdefault(worker, 0)

    def is_overdue(self) -> bool:
        """Whether an actor has waited too long on a node that seemed to have room for it."""
        return self._node_choice.is_overdue(self._clock.now())

    def place_waiting(self) -> None:
        """Move waiting actors to other nodes if they can start sooner there. Called after resources
        became free.
        """
        for record, choice in self._node_choice.better(self._clock.now()):
            with self._internal_errors.kept_apart("actor", record.name or record.class_name):
                self._follow(record, choice)
