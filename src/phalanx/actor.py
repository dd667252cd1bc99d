"""Actors' names where Ray's programs look for them."""

from __future__ import annotations

from phalanx.api.actors import ActorClass, ActorClassInheritanceException, exit_actor, method
from phalanx.objects.handle import ActorHandle, ActorMethod

__all__ = [
    "ActorClass",
    "ActorClassInheritanceException",
    "ActorHandle",
    "ActorMethod",
    "exit_actor",
    "method",
]
