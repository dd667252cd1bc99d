"""The head's table of actors: names, states, restarts, watchers and causes of death."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

import msgspec

from phalanx.errors import ActorAlreadyExistsError
from phalanx.model.lifecycle import (
    ACTOR,
    ALIVE,
    DEAD,
    DEPENDENCIES_UNREADY,
    PENDING_CREATION,
    RESTARTING,
    move,
)
from phalanx.model.node_deaths import (
    MOST,
    ORDERLY,
    is_held_against,
    why_not_again,
    why_stopped,
    with_one_more,
)
from phalanx.model.system_settings import DEAD_ACTORS
from phalanx.protocol.actor_messages import ActorHere
from phalanx.protocol.requests.actors import KILLED

REGISTRATION_S = 5.0
KILLED_ONCE = "killed by phalanx.kill"
CONFIRMATION_S = 60.0
"""Seconds for which a restarted head waits for the nodes to report their actors."""


class ActorRecord(msgspec.Struct, kw_only=True, eq=False):
    """An actor. `creation` holds the bytes from which its workers create the actor; the bytes are
    opaque here.
    """

    actor: bytes
    owner: bytes
    job: bytes
    creation: bytes
    files: list[str] = []
    """The files in shared memory that the actor's creation reads. The files are kept while the
    actor may be created again.
    """
    class_name: str
    repr_name: str = ""
    """The name that the actor gives itself; empty if its class gives none."""
    call_site: str = ""
    """The place in the program where the actor was created, if that is recorded."""
    task_events: bool = True
    """Whether listings of tasks show the actor's creation."""
    name: str = ""
    namespace: str = ""
    detached: bool = False
    max_restarts: int = 0
    place: dict[str, float] = {}
    hold: dict[str, float] = {}
    environment: bytes = b""
    strategy: dict[str, Any] = {}
    priority: int = 0
    state: str = PENDING_CREATION
    incarnation: int = 0
    """Identifies one order to one node to start the actor. The number grows with each life of the
    actor, and each time the actor leaves a node before it is alive.
    """
    restarts: int = 0
    node: str = ""
    """The id, in hex, of the node that has the actor's worker or was asked for one."""
    worker: bytes = b""
    pid: int = 0
    is_made: bool = False
    """Whether the actor's constructor has returned in the current life."""
    reason: str = ""
    error: bytes = b""
    """The error that the actor's constructor raised, pickled; opaque here."""
    code: str = ""
    """The error code if no node can ever hold the actor."""
    handle: bytes = b""
    """The value that get_actor returns: the pickled description of its methods, opaque here."""
    watchers: list[bytes] = []
    ending_reason: str = msgspec.field(default="", name="is_ending")
    """Why the actor is being ended on purpose, while its process still runs; otherwise empty. The
    store keeps this field under the name that earlier versions used.
    """
    node_deaths: list[float] = []
    """The times when nodes died while the actor ran there, in seconds since the epoch. Only deaths
    that count against the actor are kept.
    """
    began: float = 0.0
    """When the constructor returned in the current life, in seconds since the epoch; 0 if the
    constructor has not returned, or if the time is unknown.
    """
    ended: float = 0.0
    """When the actor died, in seconds since the epoch; 0 if the actor is not dead, or if the time
    is unknown.
    """


class ActorEffects(Protocol):
    """Requests that the table makes to its shell."""

    def place_actor(self, record: ActorRecord) -> None:
        """Find a worker for the actor. A call of `placed` follows."""
        ...

    def withdraw_actor(self, record: ActorRecord) -> None:
        """Withdraw the request for a worker that the actor needs no longer."""
        ...

    def restarts(self, record: ActorRecord, is_crash: bool) -> None:
        """Count a restart of an actor whose worker is gone. `is_crash`: whether the process
        crashed.
        """
        ...

    def end_worker(self, record: ActorRecord, reason: str, force: bool) -> None:
        """End the actor's process. With `force` the process is killed immediately, otherwise it
        ends after the calls that the actor already has.
        """
        ...

    def ending(self, record: ActorRecord) -> None:
        """Store that a living actor is about to be ended on purpose, because a restarted head must
        know this.
        """
        ...

    def publish(self, record: ActorRecord, watchers: list[bytes]) -> None:
        """Store the actor's state, and send it to these processes."""
        ...


class ActorTable:
    """All actors of the cluster."""

    def __init__(
        self,
        effects: ActorEffects,
        kept_dead: int = DEAD_ACTORS,
        wall: Callable[[], float] = lambda: 0.0,
    ) -> None:
        """`kept_dead`: the number of ended actors that are remembered. `wall` returns the
        wall-clock time.
        """
        self._effects = effects
        self._wall = wall
        self._kept_dead = kept_dead
        self._actors: dict[bytes, ActorRecord] = {}
        self._names: dict[tuple[str, str], bytes] = {}
        self._awaited: dict[bytes, tuple[float, list[bytes]]] = {}
        """For each actor whose registration has not arrived yet: the time until which its watchers
        wait, and the watchers.
        """
        self._unconfirmed: dict[bytes, float] = {}
        """Restored actors, each with the time until which its node may report that it has the
        actor.
        """

    def announce(self, record: ActorRecord) -> None:
        """Add an actor before its registration, while the arguments of its constructor are not yet
        available.
        """
        record.state = DEPENDENCIES_UNREADY
        self._add(record)

    def register(self, record: ActorRecord) -> None:
        """Add an actor and place it. Raises ActorAlreadyExistsError if another actor has the
        name.
        """
        known = self._actors.get(record.actor)
        if known is not None:
            if known.state != DEPENDENCIES_UNREADY:
                return  # the actor was killed before its arguments were ready
            known.creation, known.files = record.creation, record.files
            self._move(known, PENDING_CREATION)
            self._effects.place_actor(known)
            return
        self._add(record)
        self._effects.place_actor(record)

    def _add(self, record: ActorRecord) -> None:
        if record.name:
            key = (record.namespace, record.name)
            if key in self._names:
                raise ActorAlreadyExistsError(
                    f"The name {record.name} (namespace={record.namespace}) is already taken. "
                    "Please use a different name, get_if_exists=True, or kill that actor first."
                )
            self._names[key] = record.actor
        self._actors[record.actor] = record
        _, waiting = self._awaited.pop(record.actor, (0.0, []))
        record.watchers = [record.owner, *(w for w in waiting if w != record.owner)]

    def get(self, actor: bytes) -> ActorRecord | None:
        """Return the actor with this id. Dead actors remain known for a while."""
        return self._actors.get(actor)

    def named(self, namespace: str, name: str) -> ActorRecord | None:
        """Return the actor with this name, if it is alive or will be."""
        actor = self._names.get((namespace, name))
        return None if actor is None else self._actors[actor]

    def names(self, namespace: str | None) -> list[tuple[str, str]]:
        """Return (namespace, name) of each named actor that is alive or will be, in one namespace
        or in all.
        """
        return [k for k in self._names if namespace is None or k[0] == namespace]

    def all(self) -> list[ActorRecord]:
        """Return every actor, oldest first."""
        return list(self._actors.values())

    def watch(self, actor: bytes, watcher: bytes, now: float) -> None:
        """Send the actor's state to `watcher`, now and whenever the state changes."""
        record = self._actors.get(actor)
        if record is None:
            # A handle may arrive before its actor's registration, which comes from another process.
            _, waiting = self._awaited.setdefault(actor, (now + REGISTRATION_S, []))
            waiting.append(watcher)
            return
        if watcher not in record.watchers:
            record.watchers.append(watcher)
        self._effects.publish(record, [watcher])

    def tick(self, now: float) -> None:
        """If an actor's registration did not arrive in time, tell the watchers that the actor does
        not exist. If no node has confirmed an actor in time, treat the actor as missing.
        """
        for actor, (deadline, watchers) in list(self._awaited.items()):
            if now < deadline:
                continue
            del self._awaited[actor]
            gone = ActorRecord(
                actor=actor,
                owner=b"",
                job=b"",
                creation=b"",
                class_name="",
                state=DEAD,
                reason="The actor is not known to this cluster.",
            )
            self._effects.publish(gone, watchers)
        for actor in [a for a, deadline in self._unconfirmed.items() if now >= deadline]:
            self._missing(self._actors[actor])

    # ---- a restarted head ----------------------------------------------------------------------

    def restore(self, rows: Iterable[ActorRecord], now: float) -> None:
        """Restore what the head knew before it restarted.

        An actor that has a node counts as missing unless the node confirms it in time (`confirm`).
        If a missing actor had a worker, it has died; otherwise it is placed again. Actors without a
        node are placed now.
        """
        restored = list(rows)
        for record in restored:
            self._actors[record.actor] = record
            if record.state == DEAD:
                continue
            if record.name and not record.ending_reason:
                self._names[record.namespace, record.name] = record.actor
            if record.node:
                self._unconfirmed[record.actor] = now + CONFIRMATION_S
        for record in restored:
            if not record.node:
                self._place_anew(record)

    def row(self, record: ActorRecord) -> ActorRecord:
        """Return the row that is stored for an actor: a copy that later changes do not affect."""
        return msgspec.structs.replace(record, watchers=list(record.watchers))

    def confirm(self, node: str, here: Mapping[bytes, ActorHere]) -> list[bytes]:
        """Compare the actors that a joining node reports with the table. An actor that is missing
        on the node has died or, if it had no worker yet, is placed again. Returns the actors whose
        workers the node must end.
        """
        strangers = []
        for actor, (worker, incarnation) in here.items():
            record = self._actors.get(actor)
            is_ours = record is not None and record.state != DEAD and record.node == node
            if record is None or not is_ours or not _is_of(record, worker, incarnation):
                strangers.append(actor)
                continue
            self._unconfirmed.pop(actor, None)
            record.worker = worker
        for record in list(self._actors.values()):
            is_there = record.actor in here and record.actor not in strangers
            if record.node == node and record.state != DEAD and not is_there:
                self._missing(record)
        return strangers

    def _missing(self, record: ActorRecord) -> None:
        """Restart or end an actor that its node no longer has. An actor without a worker is placed
        again.
        """
        if record.worker:
            why = f"the node {record.node} does not have it any more"
            self._lost(record, why, f"The actor died because {why}.")
        else:
            self._place_anew(record)

    # ---- the life of an actor -------------------------------------------------------------------

    def sent(self, actor: bytes, node: str) -> None:
        """Note which node was asked for a worker; an empty id if none was asked."""
        record = self._actors.get(actor)
        if record is not None and record.state != DEAD:
            self._go_to(record, node)

    def placed(self, actor: bytes, worker: bytes, node: str = "") -> bool:
        """Note that a worker of the asked node creates the actor. Returns False if the actor no
        longer needs this worker.
        """
        record = self._actors.get(actor)
        if record is None or record.state == DEAD:
            return False
        if node and (record.node != node or record.worker not in (b"", worker)):
            return False  # this answer is from a node that was asked earlier
        record.worker = worker
        return True

    def ready(self, actor: bytes, worker: bytes, pid: int, repr_name: str = "") -> None:
        """Note that the constructor returned. `repr_name`: the name that the actor gives itself."""
        record = self._actors.get(actor)
        if record is None or record.worker != worker or record.state in (ALIVE, DEAD):
            return  # such as a repeated report
        record.pid, record.repr_name, record.is_made = pid, repr_name, True
        self._move(record, ALIVE)

    def failed(self, actor: bytes, error: bytes) -> None:
        """End an actor whose constructor raised an error. The actor does not restart."""
        record = self._actors.get(actor)
        if record is None or record.state == DEAD:
            return
        record.error = error
        self._die(
            record,
            "The actor died because of an error raised in its creation task, which is its "
            "constructor.",
        )
        self._effects.end_worker(record, "constructor failed", True)

    def worker_died(
        self,
        actor: bytes,
        worker: bytes,
        reason: str,
        preempted: bool = False,
        code: str = "",
        parent_killed: float | None = None,
    ) -> None:
        """Restart or end an actor whose process ended. `preempted`: whether the process was
        preempted, which costs no restart. `code`: the code of the error with which calls fail, or
        "" for the usual error. `parent_killed`: the wall-clock time of the end if the process
        probably ended because it killed its parent, otherwise None.
        """
        record = self._actors.get(actor)
        if record is None or record.worker != worker or record.state == DEAD:
            return
        if preempted and record.max_restarts > 0:
            record.restarts -= 1  # `_lost` counts one restart
        if parent_killed is not None:
            record.node_deaths = with_one_more(record.node_deaths, parent_killed)
            if len(record.node_deaths) >= MOST:
                why = why_stopped("it", reason)
                self._lost(record, why, f"The actor died: {why}.", is_final=True)
                return
        death = f"The actor is dead because its worker process has died: {reason}."
        self._lost(record, reason, death, code, is_crash=not preempted and reason != KILLED_ONCE)

    def node_gone(self, node: str, reason: str, death: str = ORDERLY, wall: float = 0.0) -> None:
        """Restart or end the actors of a dead node. Actors that only waited there are placed
        elsewhere, which costs them no restart.

        An actor is ended if too many nodes died while it ran on them. `death`: how the node ended.
        `wall`: the wall-clock time.
        """
        for record in list(self._actors.values()):
            if record.node != node or record.state == DEAD:
                continue
            if record.worker:
                why = f"its node has died: node {node}: {reason}"
                if is_held_against(death, has_no_limit=record.max_restarts < 0):
                    record.node_deaths = with_one_more(record.node_deaths, wall)
                if len(record.node_deaths) >= MOST:
                    why = why_not_again("it", reason)
                    self._lost(record, why, f"The actor died: {why}.", is_final=True)
                else:
                    self._lost(record, why, f"The actor died because {why}.")
            else:
                self._place_anew(record)

    def _place_anew(self, record: ActorRecord) -> None:
        self._go_to(record, "")
        self._unconfirmed.pop(record.actor, None)
        if record.state in (PENDING_CREATION, RESTARTING):
            self._effects.place_actor(record)

    def _go_to(self, record: ActorRecord, node: str) -> None:
        """Move the actor from its node to another node, or to none, as another incarnation.

        The incarnation must change, because the old node may have created the actor and told
        callers, although the head died before it stored this. Callers must not mistake the next
        process for the old one. The head must not mistake a late report of the old node for the
        answer to a later order.
        """
        if record.node and record.node != node:
            record.incarnation += 1
        record.node = node

    def _lost(
        self,
        record: ActorRecord,
        reason: str,
        death: str,
        code: str = "",
        is_final: bool = False,
        is_crash: bool = False,
    ) -> None:
        """Restart or end an actor whose worker is gone for `reason`. With `is_final`, the actor
        always ends. `death`: the text of the error that callers then get; `code`: the code of that
        error. `is_crash`: whether the process crashed.
        """
        record.worker, record.node = b"", ""
        self._unconfirmed.pop(record.actor, None)
        if record.ending_reason:
            self._die(record, record.ending_reason)
        elif not is_final and (record.max_restarts < 0 or record.restarts < record.max_restarts):
            record.restarts += 1
            record.incarnation += 1
            record.is_made = False
            record.reason = reason
            self._effects.restarts(record, is_crash)
            self._move(record, RESTARTING)
            self._effects.place_actor(record)
        else:
            record.code = code
            self._die(record, death)

    def leaving(self, actor: bytes, reason: str) -> None:
        """Handle an actor that ends itself (exit_actor): the actor does not restart."""
        record = self._actors.get(actor)
        if record is not None and record.state != DEAD:
            self._begin_end(record, reason)

    def kill(self, actor: bytes, no_restart: bool) -> None:
        """Kill an actor now. Unless `no_restart` is set, the actor restarts if it has restarts
        left.
        """
        record = self._actors.get(actor)
        if record is None or record.state == DEAD:
            return
        if no_restart:
            self._end(record, KILLED, force=True)
        elif record.worker:
            self._effects.end_worker(record, KILLED_ONCE, True)
        elif record.state != DEPENDENCIES_UNREADY:
            self._effects.withdraw_actor(record)
            self._lost(record, KILLED_ONCE, KILLED)

    def unreferenced(self, actor: bytes) -> None:
        """End an actor that has no handles left, once it has finished the calls that it already
        has.
        """
        record = self._actors.get(actor)
        if record is None or record.detached or record.state == DEAD:
            return
        self._end(record, "The actor died because all handles to it went out of scope.", False)

    def refused(self, actor: bytes, reason: str, code: str) -> None:
        """End an actor that can never be placed. `code`: the code of the error with which its calls
        fail.
        """
        record = self._actors.get(actor)
        if record is not None and record.state != DEAD:
            record.code = code
            self._die(record, f"The actor cannot be placed: {reason}.")

    def refuse_new(self, record: ActorRecord, reason: str, code: str) -> None:
        """Report a rejected new actor as dead to its owner and watchers."""
        if record.actor not in self._actors:
            record.name = ""  # so that the refused actor does not take the name
            self._add(record)
        self.refused(record.actor, reason.rstrip("."), code)

    def process_gone(self, process: bytes) -> None:
        """End the actors of an owner that ended, unless they are detached. If the process was a
        watcher, it stops watching.
        """
        for record in list(self._actors.values()):
            if process in record.watchers:
                record.watchers.remove(process)
            if record.owner == process and not record.detached and record.state != DEAD:
                self._end(
                    record,
                    "The actor is dead because its owner has died: its process ended.",
                    force=True,
                )

    def _begin_end(self, record: ActorRecord, reason: str, at_once: bool = False) -> None:
        """Note that an actor is ending for good. Its name is free from now on, although its process
        may take a while to end: a lookup by name returns only actors that are alive or will be.
        `at_once`: whether its process is killed without a warning.
        """
        if record.ending_reason:
            return
        record.ending_reason = reason
        self._free_name(record)
        if record.state == ALIVE and not at_once:
            self._effects.ending(record)

    def _free_name(self, record: ActorRecord) -> None:
        key = (record.namespace, record.name)
        if self._names.get(key) == record.actor:
            del self._names[key]

    def _end(self, record: ActorRecord, reason: str, force: bool) -> None:
        self._begin_end(record, reason, at_once=force)
        if record.worker and record.state == ALIVE and not force:
            self._effects.end_worker(record, record.ending_reason, False)
            return
        if record.worker:
            self._effects.end_worker(record, record.ending_reason, True)
        else:
            self._effects.withdraw_actor(record)
        if record.state != DEAD:  # the effect may have reported the actor's end already
            self._die(record, record.ending_reason)

    def _die(self, record: ActorRecord, reason: str) -> None:
        record.reason = reason
        self._free_name(record)
        self._move(record, DEAD)
        record.creation = b""
        self._unconfirmed.pop(record.actor, None)
        if len(self._actors) <= self._kept_dead:
            return
        dead = [a for a, r in self._actors.items() if r.state == DEAD]
        for actor in dead[: max(len(dead) - self._kept_dead, 0)]:
            del self._actors[actor]

    def _move(self, record: ActorRecord, state: str) -> None:
        context = f"actor {record.actor.hex()} ({record.class_name}), restarts {record.restarts}"
        record.state = move(ACTOR, "actor", record.state, state, context)
        if state == ALIVE:
            record.began = self._wall()
        elif state == RESTARTING:
            record.began = 0.0
        elif state == DEAD:
            record.ended = self._wall()
        self._effects.publish(record, list(record.watchers))


def _is_of(record: ActorRecord, worker: bytes, incarnation: int) -> bool:
    """Whether that worker belongs to the actor's current life. If the actor has no known worker
    yet, that worker may belong to an earlier life, which the head gave up while the node was
    disconnected.
    """
    return record.worker == worker if record.worker else record.incarnation == incarnation
