"""Actors' names where Ray's programs look for them."""

from __future__ import annotations

from phalanx.api.actors import ActorClass, ActorHandle, ActorMethod, exit_actor, method

__all__ = ["ActorClass", "ActorHandle", "ActorMethod", "exit_actor", "method"]
