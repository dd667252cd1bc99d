"""What a cycle decided, and why the rest must wait, as frozen values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec


class Rejection(msgspec.Struct, frozen=True, kw_only=True):
    """One typed "no": `reason` is a code of explain.REASONS, `count` how many nodes (or tasks, or
    groups ahead) it concerns, `detail` the numbers behind it."""

    reason: str
    count: int = 0
    detail: Mapping[str, Any] = {}


class Eviction(msgspec.Struct, frozen=True, kw_only=True):
    """A task that must go, and which action (or plugin) says so. `move_to` names the node that
    has room for it once it comes back, where one was found."""

    task: str
    reason: str
    counts_as_retry: bool = True
    move_to: str = ""


class Timing(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds that one part of the cycle took, by the caller's clock. `part` is cycle (the whole),
    session, plugin (opening it), action, or hook; a hook's seconds are in the action's too."""

    part: str
    name: str
    seconds: float


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of one cycle. Names are namespace/name; nothing here is applied yet."""

    binds: Mapping[str, str]
    evictions: tuple[Eviction, ...]
    pipelined: Mapping[str, str]
    phases: Mapping[str, str]
    rejections: Mapping[str, tuple[Rejection, ...]]
    allocated_hypernodes: Mapping[str, str] = {}
    nominations: Mapping[str, str] = {}
    timings: tuple[Timing, ...] = ()
    warnings: tuple[str, ...] = ()
    acted: tuple[str, ...] = ()
    """Plugins that did what they do only now and then: the next snapshot's `last_acted`."""

    @property
    def evicted(self) -> tuple[str, ...]:
        return tuple(e.task for e in self.evictions)
