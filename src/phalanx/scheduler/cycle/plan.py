"""The decisions of a cycle, and the reasons why all other work must wait, as frozen values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec


class Rejection(msgspec.Struct, frozen=True, kw_only=True):
    """One typed reason why something was refused.

    `reason` is a code of explain.REASONS. `count` is the number of nodes (or tasks, or groups
    ahead) concerned, and `detail` has the numbers behind it. `plugin` names the plugin that
    refused; it is empty where the cycle itself refused, for example for lack of room.
    """

    reason: str
    count: int = 0
    detail: Mapping[str, Any] = {}
    plugin: str = ""


class Eviction(msgspec.Struct, frozen=True, kw_only=True):
    """A task that is evicted.

    `reason` is the action (or plugin) that decided it. `move_to` is a node with room for the task
    once it comes back, if one was found. `claimant` is the podgroup that gets the evicted task's
    room; empty if none.
    """

    task: str
    reason: str
    counts_as_retry: bool = True
    move_to: str = ""
    claimant: str = ""


class Choice(msgspec.Struct, frozen=True, kw_only=True):
    """Why the first task of a podgroup went to its node.

    `among` is the number of nodes that would have taken the task. `scores` has the score of `node`
    from each plugin that ranks nodes. `chooser` is the plugin that chose among those nodes itself,
    if one did.
    """

    node: str
    among: int
    scores: Mapping[str, float]
    chooser: str = ""


class Timing(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds that one part of the cycle took, by the caller's clock.

    `part` is cycle (the whole), session, plugin (opening it), action, or hook. A hook's seconds are
    included in those of the action that called it.
    """

    part: str
    name: str
    seconds: float


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """The decisions of one cycle, before any of them is applied. Names are namespace/name."""

    binds: Mapping[str, str]
    evictions: tuple[Eviction, ...]
    pipelined: Mapping[str, str]
    phases: Mapping[str, str]
    rejections: Mapping[str, tuple[Rejection, ...]]
    """Why work was not placed. Unless the cycle explains, only the reasons that plugins gave for
    whole podgroups.
    """
    main: Mapping[str, tuple[Rejection, ...]] = {}
    """For each waiting podgroup, the few rejections without which the podgroup would not wait."""
    choices: Mapping[str, Choice] = {}
    """For the first podgroups that got places, why the first task went to its node."""
    allocated_hypernodes: Mapping[str, str] = {}
    nominations: Mapping[str, str] = {}
    timings: tuple[Timing, ...] = ()
    warnings: tuple[str, ...] = ()
    acted: tuple[str, ...] = ()
    """Plugins that did their periodic work: the next snapshot's `last_acted`."""

    @property
    def evicted(self) -> tuple[str, ...]:
        return tuple(e.task for e in self.evictions)
