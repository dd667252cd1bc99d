"""Answers requests about actors."""

from __future__ import annotations

import msgspec

from phalanx.errors import PhalanxError
from phalanx.head.actors.control import ActorControl
from phalanx.head.actors.table import ActorRecord
from phalanx.head.clock import Clock
from phalanx.model.nearest import nearest
from phalanx.model.options import check_amounts
from phalanx.model.rows.actors import ActorInfo
from phalanx.model.rows.explanation import Explanation
from phalanx.protocol.requests.actors import (
    ActorSpec,
    AnnounceActor,
    ExplainActor,
    GetActor,
    GetActorHandle,
    KillActor,
    KnownActor,
    ListActors,
    ListNamedActors,
    RegisterActor,
    WatchActor,
)
from phalanx.protocol.requests.request import LATER, Asker, Entry, Later
from phalanx.protocol.wire_errors import to_wire
from phalanx.scheduler.placement.strategies import check_strategy

_MOST_NAMES = 100
"""The largest number of names among which a similar name is searched. The limit exists because
programs look names up in loops.
"""


class ActorRequests:
    """The handlers of requests about actors."""

    def __init__(self, actors: ActorControl, clock: Clock) -> None:
        self._actors = actors
        self.table = actors.table
        self._clock = clock

    def entries(self) -> list[Entry]:
        """Return the requests that this object answers, each with its handler."""
        return [
            RegisterActor.handled_by(self._register_actor),
            AnnounceActor.handled_by(self._announce_actor),
            GetActor.handled_by(self._get_actor),
            GetActorHandle.handled_by(self._get_actor_handle),
            WatchActor.handled_by(self._watch_actor),
            KillActor.handled_by(self._kill_actor),
            ListActors.handled_by(self._list_actors),
            ExplainActor.handled_by(self._explain_actor),
            ListNamedActors.handled_by(self._list_named_actors),
        ]

    def _register_actor(self, asker: Asker[KnownActor], request: RegisterActor) -> KnownActor:
        _check_actor(request.spec)
        actors, spec = self.table, request.spec
        existing = actors.named(spec.namespace, spec.name)
        is_again = existing is not None and existing.actor == spec.actor
        if existing is not None and request.get_if_exists and not is_again:
            return KnownActor(existing.actor, existing.handle)
        record = _record(asker.process, spec)
        record.creation, record.files = request.creation, request.files
        actors.register(record)
        return KnownActor(record.actor, record.handle, existed=False)

    def refuse(self, owner: bytes, request: RegisterActor, error: PhalanxError) -> None:
        """Report a refused actor as dead to its owner, because the owner does not wait for an
        answer to its request.
        """
        record = _record(owner, request.spec)
        self.table.refuse_new(record, str(error), to_wire(error).code)

    def _announce_actor(self, asker: Asker[None], request: AnnounceActor) -> None:
        _check_actor(request.spec)
        self.table.announce(_record(asker.process, request.spec))

    def _get_actor(self, asker: Asker[KnownActor], request: GetActor) -> KnownActor:
        record = self.table.named(request.namespace, request.name)
        if record is None:
            names = [name for _, name in self.table.names(request.namespace)]
            near = nearest(request.name, names) if len(names) <= _MOST_NAMES else ""
            raise ValueError(
                f"Failed to look up actor with name '{request.name}'. This could be because it was "
                f"never created in namespace '{request.namespace}', has died, or its name is "
                f"spelled differently{near or '.'}"
            )
        return KnownActor(record.actor, record.handle)

    def _get_actor_handle(self, asker: Asker[KnownActor], request: GetActorHandle) -> KnownActor:
        record = self.table.get(request.actor)
        if record is None:
            raise ValueError("the actor is not known")
        return KnownActor(record.actor, record.handle)

    def _watch_actor(self, asker: Asker[None], request: WatchActor) -> None:
        self.table.watch(request.actor, asker.process, self._clock.now())

    def _kill_actor(self, asker: Asker[None], request: KillActor) -> Later:
        record = self.table.get(request.actor)
        worker = record.worker if record is not None else b""
        self.table.kill(request.actor, request.no_restart)
        self._actors.when_gone(worker, lambda: asker.reply(None))
        return LATER

    def _list_actors(self, asker: Asker[list[ActorInfo]], request: ListActors) -> list[ActorInfo]:
        return [_actor_row(record) for record in self.table.all()]

    def _list_named_actors(
        self, asker: Asker[list[tuple[str, str]]], request: ListNamedActors
    ) -> list[tuple[str, str]]:
        return self.table.names(request.namespace)

    def _explain_actor(self, asker: Asker[Explanation], request: ExplainActor) -> Explanation:
        return self._actors.explain(request.actor)


def _record(owner: bytes, spec: ActorSpec) -> ActorRecord:
    return ActorRecord(owner=owner, job=owner[12:], creation=b"", **msgspec.structs.asdict(spec))


def _check_actor(spec: ActorSpec) -> None:
    check_amounts(spec.place)
    check_amounts(spec.hold)
    if any(amount > spec.place.get(name, 0.0) for name, amount in spec.hold.items()):
        raise ValueError(
            "an actor can only hold part of the resources that it is placed with: "
            f"{spec.place}, {spec.hold}"
        )
    check_strategy(spec.strategy)


def _actor_row(record: ActorRecord) -> ActorInfo:
    return ActorInfo(
        actor_id=record.actor.hex(),
        class_name=record.class_name,
        state=record.state,
        job_id=record.job.hex(),
        name=record.name,
        ray_namespace=record.namespace,
        node_id=record.node,
        pid=record.pid,
        is_detached=record.detached,
        num_restarts=record.restarts,
        required_resources=record.hold,
        placement_group_id=record.strategy.get("group"),
        death_cause=record.reason,
    )
