"""The control store's table of actors: names, states, restarts, who watches, why one died."""

from __future__ import annotations

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

KEEP_DEAD = 10_000
REGISTRATION_S = 5.0


class ActorRecord(msgspec.Struct, kw_only=True, eq=False):
    """One actor. `creation` is what its workers need to make it, opaque here."""

    actor: bytes
    owner: bytes
    job: bytes
    creation: bytes
    class_name: str
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
    restarts: int = 0
    worker: bytes = b""
    pid: int = 0
    reason: str = ""
    error: bytes = b""
    handle: bytes = b""
    """What get_actor gives out: the pickled description of its methods, opaque here."""
    watchers: list[bytes] = []
    is_ending: str = ""
    """Why it is being ended on purpose, while its process still runs."""


class ActorEffects(Protocol):
    """What the table asks of its shell."""

    def place_actor(self, record: ActorRecord) -> None:
        """Find a worker for it; `placed` follows."""
        ...

    def withdraw_actor(self, record: ActorRecord) -> None:
        """It needs no worker any more."""
        ...

    def create_on(self, record: ActorRecord) -> None:
        """Have `record.worker` make it."""
        ...

    def end_worker(self, record: ActorRecord, reason: str, force: bool) -> None:
        """End the actor's process: at once, or after the calls it already has."""
        ...

    def publish(self, record: ActorRecord, watchers: list[bytes]) -> None:
        """Tell these processes the actor's state."""
        ...


class ActorTable:
    """All actors of the cluster."""

    def __init__(self, effects: ActorEffects) -> None:
        self._effects = effects
        self._actors: dict[bytes, ActorRecord] = {}
        self._names: dict[tuple[str, str], bytes] = {}
        self._awaited: dict[bytes, tuple[float, list[bytes]]] = {}
        """Watchers of actors whose registration is still on its way, with their deadline."""

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
            known.creation = record.creation
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
                    "Use another name, get_if_exists=True, or kill that actor first."
                )
            self._names[key] = record.actor
        self._actors[record.actor] = record
        _, waiting = self._awaited.pop(record.actor, (0.0, []))
        record.watchers = [record.owner, *(w for w in waiting if w != record.owner)]

    def get(self, actor: bytes) -> ActorRecord | None:
        """The actor with this id, dead ones included for a while."""
        return self._actors.get(actor)

    def named(self, namespace: str, name: str) -> ActorRecord | None:
        """The living actor of that name."""
        actor = self._names.get((namespace, name))
        return None if actor is None else self._actors[actor]

    def names(self, namespace: str | None) -> list[tuple[str, str]]:
        """(namespace, name) of living named actors; of one namespace or of all."""
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

    def placed(self, actor: bytes, worker: bytes) -> bool:
        """A worker was found. False when the actor needs none any more."""
        record = self._actors.get(actor)
        if record is None or record.state == DEAD:
            return False
        record.worker = worker
        self._effects.create_on(record)
        return True

    def ready(self, actor: bytes, worker: bytes, pid: int) -> None:
        """Its constructor returned."""
        record = self._actors.get(actor)
        if record is None or record.worker != worker or record.state == DEAD:
            return
        record.pid = pid
        self._move(record, ALIVE)

    def failed(self, actor: bytes, error: bytes) -> None:
        """Its constructor raised: it is dead, restarts or not."""
        record = self._actors.get(actor)
        if record is None or record.state == DEAD:
            return
        record.error = error
        self._die(record, "The actor died because of an error raised in its constructor.")
        self._effects.end_worker(record, "constructor failed", True)

    def worker_died(self, actor: bytes, worker: bytes, reason: str) -> None:
        """Its process ended: restart it, or call it dead."""
        record = self._actors.get(actor)
        if record is None or record.worker != worker or record.state == DEAD:
            return
        record.worker = b""
        if record.is_ending:
            self._die(record, record.is_ending)
        elif record.max_restarts < 0 or record.restarts < record.max_restarts:
            record.restarts += 1
            record.incarnation += 1
            record.reason = reason
            self._move(record, RESTARTING)
            self._effects.place_actor(record)
        else:
            self._die(record, f"The actor died because its process ended: {reason}.")

    def leaving(self, actor: bytes, reason: str) -> None:
        """It ends by its own will (exit_actor): no restart."""
        record = self._actors.get(actor)
        if record is not None:
            record.is_ending = record.is_ending or reason

    def kill(self, actor: bytes, no_restart: bool) -> None:
        """End it now; with restarts left and `no_restart` False it comes back."""
        record = self._actors.get(actor)
        if record is None or record.state == DEAD:
            return
        if no_restart:
            self._end(record, "The actor was killed by phalanx.kill.", force=True)
        elif record.worker:
            self._effects.end_worker(record, "killed by phalanx.kill", True)

    def unreferenced(self, actor: bytes) -> None:
        """Its last handle went: it ends after the calls that it has."""
        record = self._actors.get(actor)
        if record is None or record.detached or record.state == DEAD:
            return
        self._end(record, "The actor died because all handles to it went out of scope.", False)

    def refused(self, actor: bytes, reason: str, error: bytes) -> None:
        """It can be placed nowhere, ever."""
        record = self._actors.get(actor)
        if record is not None and record.state != DEAD:
            record.error = error
            self._die(record, f"The actor cannot be placed: {reason}.")

    def process_gone(self, process: bytes) -> None:
        """An owner ended: its actors end, unless detached. A watcher watches no longer."""
        for record in list(self._actors.values()):
            if process in record.watchers:
                record.watchers.remove(process)
            if record.owner == process and not record.detached and record.state != DEAD:
                self._end(record, "The actor died because its owner's process ended.", force=True)

    def _end(self, record: ActorRecord, reason: str, force: bool) -> None:
        record.is_ending = record.is_ending or reason
        if record.worker and record.state == ALIVE and not force:
            self._effects.end_worker(record, record.is_ending, False)
            return
        if record.worker:
            self._effects.end_worker(record, record.is_ending, True)
        else:
            self._effects.withdraw_actor(record)
        self._die(record, record.is_ending)

    def _die(self, record: ActorRecord, reason: str) -> None:
        record.reason = reason
        if record.name:
            self._names.pop((record.namespace, record.name), None)
        self._move(record, DEAD)
        record.creation = b""
        if len(self._actors) <= KEEP_DEAD:
            return
        dead = [a for a, r in self._actors.items() if r.state == DEAD]
        for actor in dead[: max(len(dead) - KEEP_DEAD, 0)]:
            del self._actors[actor]

    def _move(self, record: ActorRecord, state: str) -> None:
        story = f"actor {record.actor.hex()} ({record.class_name}), restarts {record.restarts}"
        record.state = move(ACTOR, "actor", record.state, state, story)
        self._effects.publish(record, list(record.watchers))
