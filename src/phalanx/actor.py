"""Names of actors' classes and functions, where Ray's programs import them."""

from __future__ import annotations

from phalanx.api.actors import (
    ActorClass,
    ActorClassInheritanceException,
    ActorProxy,
    exit_actor,
    method,
    typed,
)
from phalanx.objects.handle import ActorHandle, ActorMethod

__all__ = [
    "ActorClass",
    "ActorClassInheritanceException",
    "ActorHandle",
    "ActorMethod",
    "ActorProxy",
    "exit_actor",
    "method",
    "typed",
]
