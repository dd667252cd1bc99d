"""The control store's table of actors: names, states, restarts, who watches, why one died."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
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
    with_one_more,
)
from phalanx.model.system_settings import DEAD_ACTORS
from phalanx.protocol.cluster_messages import ActorHere
from phalanx.protocol.requests.actors import KILLED

REGISTRATION_S = 5.0
KILLED_ONCE = "killed by phalanx.kill"
CONFIRMATION_S = 60.0
"""How long a restarted head waits for the nodes to say which actors they have."""


class ActorRecord(msgspec.Struct, kw_only=True, eq=False):
    """One actor. `creation` is what its workers need to make it, opaque here."""

    actor: bytes
    owner: bytes
    job: bytes
    creation: bytes
    files: list[str] = []
    """Files in shared memory that its making reads: they stay while it may be made again."""
    class_name: str
    repr_name: str = ""
    """What it calls itself; empty where its class does not say."""
    call_site: str = ""
    """Where in its program it was made, where that is recorded."""
    task_events: bool = True
    """Whether listings of tasks have its making."""
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
    """Grows with each life, and with each node that it leaves before it lives: it names one order
    to one node."""
    restarts: int = 0
    node: str = ""
    """The node that was asked for a worker, or has it; in hex."""
    worker: bytes = b""
    pid: int = 0
    reason: str = ""
    error: bytes = b""
    """What its constructor raised, pickled; opaque here."""
    code: str = ""
    """Of the error for which it could be placed nowhere."""
    handle: bytes = b""
    """What get_actor gives out: the pickled description of its methods, opaque here."""
    watchers: list[bytes] = []
    is_ending: str = ""
    """Why it is being ended on purpose, while its process still runs."""
    node_deaths: list[float] = []
    """When nodes died under it, in seconds since the epoch, as far as that is held against it."""


class ActorEffects(Protocol):
    """What the table asks of its shell."""

    def place_actor(self, record: ActorRecord) -> None:
        """Find a worker for it; `placed` follows."""
        ...

    def withdraw_actor(self, record: ActorRecord) -> None:
        """It needs no worker any more."""
        ...

    def restarts(self, record: ActorRecord, is_crash: bool) -> None:
        """It is to start again, as its worker is gone: by itself, or else by what befell it."""
        ...

    def end_worker(self, record: ActorRecord, reason: str, force: bool) -> None:
        """End the actor's process: at once, or after the calls it already has."""
        ...

    def ending(self, record: ActorRecord) -> None:
        """It lives, and is about to end on purpose: a head that restarts has to know."""
        ...

    def publish(self, record: ActorRecord, watchers: list[bytes]) -> None:
        """Tell these processes the actor's state."""
        ...


class ActorTable:
    """All actors of the cluster."""

    def __init__(self, effects: ActorEffects, kept_dead: int = DEAD_ACTORS) -> None:
        """`kept_dead`: so many that have ended are still known."""
        self._effects = effects
        self._kept_dead = kept_dead
        self._actors: dict[bytes, ActorRecord] = {}
        self._names: dict[tuple[str, str], bytes] = {}
        self._awaited: dict[bytes, tuple[float, list[bytes]]] = {}
        """Watchers of actors whose registration is still on its way, with their deadline."""
        self._unconfirmed: dict[bytes, float] = {}
        """Actors that were restored, and until when their nodes may say that they have them."""

    def announce(self, record: ActorRecord) -> None:
        """Make an actor known whose constructor's arguments are not there yet."""
        record.state = DEPENDENCIES_UNREADY
        self._add(record)

    def register(self, record: ActorRecord) -> None:
        """Add an actor and have it placed. Raises ActorAlreadyExistsError for a taken name."""
        known = self._actors.get(record.actor)
        if known is not None:
            if known.state != DEPENDENCIES_UNREADY:
                return  # it was killed before its arguments came
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
        """The actor with this id, dead ones included for a while."""
        return self._actors.get(actor)

    def named(self, namespace: str, name: str) -> ActorRecord | None:
        """The actor of that name: one that lives, or will."""
        actor = self._names.get((namespace, name))
        return None if actor is None else self._actors[actor]

    def names(self, namespace: str | None) -> list[tuple[str, str]]:
        """(namespace, name) of named actors that live or will; of one namespace or of all."""
        return [k for k in self._names if namespace is None or k[0] == namespace]

    def all(self) -> list[ActorRecord]:
        """Every actor, oldest first."""
        return list(self._actors.values())

    def watch(self, actor: bytes, watcher: bytes, now: float) -> None:
        """Tell `watcher` the actor's state, now and whenever it changes."""
        record = self._actors.get(actor)
        if record is None:
            # A handle may overtake its actor's registration, which came from another process.
            _, waiting = self._awaited.setdefault(actor, (now + REGISTRATION_S, []))
            waiting.append(watcher)
            return
        if watcher not in record.watchers:
            record.watchers.append(watcher)
        self._effects.publish(record, [watcher])

    def tick(self, now: float) -> None:
        """Watchers of actors that never came learn that there is none."""
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

    # ---- a head that restarts ----------------------------------------------------------------

    def restore(self, rows: Iterable[ActorRecord], now: float) -> None:
        """Know again what the head knew before it restarted.

        Whose node was asked for a worker, or has it, counts as died when the node does not
        `confirm` it in time; the others are placed.
        """
        restored = list(rows)
        for record in restored:
            self._actors[record.actor] = record
            if record.state == DEAD:
                continue
            if record.name and not record.is_ending:
                self._names[record.namespace, record.name] = record.actor
            if record.node:
                self._unconfirmed[record.actor] = now + CONFIRMATION_S
        for record in restored:
            if not record.node:
                self._place_anew(record)

    def row(self, record: ActorRecord) -> ActorRecord:
        """What is stored of an actor: a copy that later changes leave alone."""
        return msgspec.structs.replace(record, watchers=list(record.watchers))

    def confirm(self, node: str, here: Mapping[bytes, ActorHere]) -> list[bytes]:
        """A node joined again and says which actors are there.

        Those that should be there and are not have died, or are placed anew. The answer: actors
        that nobody counts on there, whose workers the node has to end.
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
        """Its node does not have it."""
        if record.worker:
            why = f"the node {record.node} does not have it any more"
            self._lost(record, why, f"The actor died because {why}.")
        else:
            self._place_anew(record)

    # ---- its life ----------------------------------------------------------------------------

    def sent(self, actor: bytes, node: str) -> None:
        """This node was asked for a worker; or none, with an empty id."""
        record = self._actors.get(actor)
        if record is not None and record.state != DEAD:
            self._go_to(record, node)

    def placed(self, actor: bytes, worker: bytes, node: str = "") -> bool:
        """A worker of the node that was asked makes it. False when the actor does not need it."""
        record = self._actors.get(actor)
        if record is None or record.state == DEAD:
            return False
        if node and (record.node != node or record.worker not in (b"", worker)):
            return False  # an answer of a node that was asked before
        record.worker = worker
        return True

    def ready(self, actor: bytes, worker: bytes, pid: int, repr_name: str = "") -> None:
        """Its constructor returned, and it calls itself so."""
        record = self._actors.get(actor)
        if record is None or record.worker != worker or record.state in (ALIVE, DEAD):
            return  # reported twice, for one
        record.pid, record.repr_name = pid, repr_name
        self._move(record, ALIVE)

    def failed(self, actor: bytes, error: bytes) -> None:
        """Its constructor raised: it is dead, restarts or not."""
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
        self, actor: bytes, worker: bytes, reason: str, preempted: bool = False, code: str = ""
    ) -> None:
        """Its process ended: restart it, or call it dead. `preempted`: that costs no restart;
        `code`: of the error that its calls fail with, where it is one of its own."""
        record = self._actors.get(actor)
        if record is None or record.worker != worker or record.state == DEAD:
            return
        if preempted and record.max_restarts > 0:
            record.restarts -= 1  # `_lost` counts one
        death = f"The actor is dead because its worker process has died: {reason}."
        self._lost(record, reason, death, code, is_crash=not preempted and reason != KILLED_ONCE)

    def node_gone(self, node: str, reason: str, death: str = ORDERLY, wall: float = 0.0) -> None:
        """A node is dead: its actors restart as declared, those that waited there are placed anew.

        What waited there is not charged with a restart. `death`: how the node ended; what made two
        of them end is dead. `wall`: the time of day.
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
        """It leaves its node for another, or for none, as another incarnation.

        The node that it leaves may have made it, and callers may have heard so: a head that could
        not write that down forgot it when it died. The next process must not pass for the same one.
        Nor may what a node makes late pass for a later order to it, which may not be written yet.
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
        """Its worker is gone: restart it for `reason`, or call it dead, as it is if `is_final`.
        `death`: what callers read then, in the error of that code. `is_crash`: it ended by
        itself."""
        record.worker, record.node = b"", ""
        self._unconfirmed.pop(record.actor, None)
        if record.is_ending:
            self._die(record, record.is_ending)
        elif not is_final and (record.max_restarts < 0 or record.restarts < record.max_restarts):
            record.restarts += 1
            record.incarnation += 1
            record.reason = reason
            self._effects.restarts(record, is_crash)
            self._move(record, RESTARTING)
            self._effects.place_actor(record)
        else:
            record.code = code
            self._die(record, death)

    def leaving(self, actor: bytes, reason: str) -> None:
        """It ends by its own will (exit_actor): no restart."""
        record = self._actors.get(actor)
        if record is not None and record.state != DEAD:
            self._begin_end(record, reason)

    def kill(self, actor: bytes, no_restart: bool) -> None:
        """End it now; with restarts left and `no_restart` False it comes back."""
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
        """Its last handle went: it ends after the calls that it has."""
        record = self._actors.get(actor)
        if record is None or record.detached or record.state == DEAD:
            return
        self._end(record, "The actor died because all handles to it went out of scope.", False)

    def refused(self, actor: bytes, reason: str, code: str) -> None:
        """It can be placed nowhere, ever. `code`: of the error that its calls fail with."""
        record = self._actors.get(actor)
        if record is not None and record.state != DEAD:
            record.code = code
            self._die(record, f"The actor cannot be placed: {reason}.")

    def refuse_new(self, record: ActorRecord, reason: str, code: str) -> None:
        """An actor that is not taken: its owner, and who watches it, learn that it is dead."""
        if record.actor not in self._actors:
            record.name = ""  # so that none is taken, or in the way
            self._add(record)
        self.refused(record.actor, reason.rstrip("."), code)

    def process_gone(self, process: bytes) -> None:
        """An owner ended: its actors end, unless detached. A watcher watches no longer."""
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
        """It will not live again. Its name is free from now on: who asks for the name gets an actor
        that lives, though the process of this one may take a while to end."""
        if record.is_ending:
            return
        record.is_ending = reason
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
            self._effects.end_worker(record, record.is_ending, False)
            return
        if record.worker:
            self._effects.end_worker(record, record.is_ending, True)
        else:
            self._effects.withdraw_actor(record)
        if record.state != DEAD:  # the effect may have brought the news of its end
            self._die(record, record.is_ending)

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
        recorder = f"actor {record.actor.hex()} ({record.class_name}), restarts {record.restarts}"
        record.state = move(ACTOR, "actor", record.state, state, recorder)
        self._effects.publish(record, list(record.watchers))


def _is_of(record: ActorRecord, worker: bytes, incarnation: int) -> bool:
    """Whether that worker is for the life that the actor has now. Where none is known yet, it may
    still be one of an earlier life, which had been given up when the node was away."""
    return record.worker == worker if record.worker else record.incarnation == incarnation
