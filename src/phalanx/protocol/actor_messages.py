"""Messages between the head and nodes about the places of actors."""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec


class PlaceActor(msgspec.Struct, array_like=True, tag=76):
    """Head to node: find a worker for this actor and make the actor there."""

    actor: bytes
    incarnation: int
    job: bytes
    creation: bytes
    name: str
    namespace: str
    place: dict[str, float]
    hold: dict[str, float]
    environment: bytes
    strategy: dict[str, Any]
    priority: int
    restarts: bool = False
    """Whether the actor may restart when its worker ends."""
    lived_before: bool = False
    """Whether the actor existed before, and restarts because its worker has ended."""


class WithdrawActor(msgspec.Struct, array_like=True, tag=77):
    """Head to node: the actor no longer needs a worker on this node."""

    actor: bytes


class EndActor(msgspec.Struct, array_like=True, tag=78):
    """Head to node: end the actor's worker after its calls have ended or, with `force`,
    immediately.
    """

    worker: bytes
    reason: str
    force: bool


class ActorPlaced(msgspec.Struct, array_like=True, tag=79):
    """Node to head: a worker was found, and makes the actor."""

    actor: bytes
    incarnation: int
    worker: bytes
    pid: int


class ActorLost(msgspec.Struct, array_like=True, tag=80):
    """Node to head: the actor's worker has ended."""

    actor: bytes
    worker: bytes
    reason: str
    preempted: bool = False
    code: str = ""
    """The code of the error with which the actor's calls fail; "" for a plain ActorDiedError."""
    is_parent_killed: bool = False
    """Whether the worker ended because its parent process was killed, most likely by the worker
    itself.
    """


class ActorRefused(msgspec.Struct, array_like=True, tag=81):
    """Node to head: the node has no worker for the actor. `code`: the code of an error if the node
    can never run the actor; "" if the node may have a worker later.
    """

    actor: bytes
    reason: str
    code: str


class ActorHere(NamedTuple):
    """An actor on a node: its worker (empty while the actor waits for one) and its incarnation."""

    worker: bytes
    incarnation: int


ActorMessage = PlaceActor | WithdrawActor | EndActor | ActorPlaced | ActorLost | ActorRefused
