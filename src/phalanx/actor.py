"""Names of the classes and functions for actors, under Ray's name of the module."""

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
