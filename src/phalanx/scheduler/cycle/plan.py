"""What a cycle decided, and why the rest must wait, as frozen values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec


class Rejection(msgspec.Struct, frozen=True, kw_only=True):
    """One typed "no": `reason` is a code of explain.REASONS, `count` how many nodes (or tasks, or
    groups ahead) it concerns, `detail` the numbers behind it. `plugin` is who says so; empty where
    it is the cycle itself: no node with room, say."""

    reason: str
    count: int = 0
    detail: Mapping[str, Any] = {}
    plugin: str = ""


class Eviction(msgspec.Struct, frozen=True, kw_only=True):
    """A task that must go, and which action (or plugin) says so. `move_to` names the node that
    has room for it once it comes back, where one was found. `claimant`: the podgroup that gets its
    room; empty where it goes for nobody."""

    task: str
    reason: str
    counts_as_retry: bool = True
    move_to: str = ""
    claimant: str = ""


class Choice(msgspec.Struct, frozen=True, kw_only=True):
    """Why the first of a podgroup's tasks went where it did: of `among` nodes that would take it
    `node` had the highest score, `scores` of each plugin that ranks nodes. `chooser`: the plugin
    that chooses among them by itself, where one does."""

    node: str
    among: int
    scores: Mapping[str, float]
    chooser: str = ""


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
    """Of a cycle that does not explain: only what plugins said of podgroups as a whole."""
    choices: Mapping[str, Choice] = {}
    """Of the first podgroups that got places."""
    allocated_hypernodes: Mapping[str, str] = {}
    nominations: Mapping[str, str] = {}
    timings: tuple[Timing, ...] = ()
    warnings: tuple[str, ...] = ()
    acted: tuple[str, ...] = ()
    """Plugins that did what they do only now and then: the next snapshot's `last_acted`."""

    @property
    def evicted(self) -> tuple[str, ...]:
        return tuple(e.task for e in self.evictions)
