"""Requests to the head about actors."""

from __future__ import annotations

from typing import Any, ClassVar

import msgspec

from phalanx.model.rights import Verb
from phalanx.model.rows.actors import ActorInfo
from phalanx.model.rows.explanation import Explanation
from phalanx.protocol.requests.request import EVERYBODY, Effect, Request, Role


class ActorSpec(msgspec.Struct, array_like=True):
    """The description of an actor to be created.

    `place` has the resources that must be free on the chosen node; `hold` has the resources that
    the actor holds while it lives (as in Ray, an actor may need a CPU to be placed but hold none).
    `environment` is the key of the actor's runtime environment; `strategy` limits the nodes on
    which the actor may be. `handle` describes the actor's methods for programs that find the actor
    by its name; the head does not read it. `max_restarts` is -1 for any number of restarts.
    `call_site`: the line of the program that creates the actor, if lines are recorded.
    `task_events`: whether listings of tasks show the actor's creation.
    """

    actor: bytes
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
    handle: bytes = b""
    call_site: str = ""
    task_events: bool = True


class ExplainActor(Request[Explanation]):
    """Explain why an actor waits for a node. `actor`: its id in hex, or its name.

    Raises JobNotFoundError when no living actor has this name.
    """

    kind: ClassVar[int] = 47
    verb: ClassVar[Verb] = Verb.READ
    effect: ClassVar[Effect] = Effect.READS
    asked_by: ClassVar[tuple[Role, ...]] = EVERYBODY

    actor: str


class KnownActor(msgspec.Struct, array_like=True):
    """An actor's id, and the description of its methods. `existed`: the actor existed before the
    request.
    """

    actor: bytes
    handle: bytes
    existed: bool = True


class RegisterActor(Request[KnownActor]):
    """Create an actor. `creation`: the description for the actor's worker; the head does not read
    it. `files`: the files in shared memory that the worker reads. Raises ActorAlreadyExistsError
    for a name that is taken; with `get_if_exists`, returns the actor of that name instead.
    """

    kind: ClassVar[int] = 40
    verb: ClassVar[Verb] = Verb.USE
    effect: ClassVar[Effect] = Effect.ADDS

    spec: ActorSpec
    creation: bytes
    files: list[str]
    get_if_exists: bool = False


class AnnounceActor(Request[None]):
    """Announce an actor, which will be registered when the arguments of its constructor are
    ready.
    """

    kind: ClassVar[int] = 41
    verb: ClassVar[Verb] = Verb.USE
    effect: ClassVar[Effect] = Effect.ADDS

    spec: ActorSpec


class GetActor(Request[KnownActor]):
    """Return the living actor with a name. Raises ValueError when no living actor has the name."""

    kind: ClassVar[int] = 42
    verb: ClassVar[Verb] = Verb.USE
    effect: ClassVar[Effect] = Effect.READS

    name: str
    namespace: str


class GetActorHandle(Request[KnownActor]):
    """Return the actor with this id. Raises ValueError for an unknown id."""

    kind: ClassVar[int] = 43
    verb: ClassVar[Verb] = Verb.USE
    effect: ClassVar[Effect] = Effect.READS

    actor: bytes


class WatchActor(Request[None]):
    """Send the asker the actor's worker (`ActorUpdate`), now and whenever the worker changes."""

    kind: ClassVar[int] = 44
    verb: ClassVar[Verb] = Verb.USE

    actor: bytes


class KillActor(Request[None]):
    """Kill an actor without waiting for its calls. Without `no_restart`, the actor may restart. The
    answer comes when the actor's process has ended.
    """

    kind: ClassVar[int] = 45
    verb: ClassVar[Verb] = Verb.USE

    actor: bytes
    no_restart: bool


KILLED = "The actor is dead because it was killed by `ray.kill` (phalanx.kill)."
"""The reason for the end of a killed actor, in Ray's words, because programs search for these
words.
"""


class ListActors(Request[list[ActorInfo]]):
    """List all actors, the oldest first, including recently dead actors."""

    kind: ClassVar[int] = 48
    verb: ClassVar[Verb] = Verb.SEE
    effect: ClassVar[Effect] = Effect.READS
    asked_by: ClassVar[tuple[Role, ...]] = EVERYBODY


class ListNamedActors(Request[list[tuple[str, str]]]):
    """List the living actors with names in a namespace, each as (namespace, name). The namespace
    None stands for all namespaces.
    """

    kind: ClassVar[int] = 46
    verb: ClassVar[Verb] = Verb.SEE
    effect: ClassVar[Effect] = Effect.READS

    namespace: str | None
