"""The decisions of a cycle, and the reasons why all other work must wait, as immutable values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec


class Rejection(msgspec.Struct, frozen=True, kw_only=True):
    """One typed reason why something was refused.

    `reason` is a code of explain.REASONS. `count`: the number of nodes concerned, or of tasks, or
    of groups that are ahead. `detail`: the numbers that led to the reason. `plugin`: the plugin
    that refused; empty if the cycle itself refused, for example for lack of room.
    """

    reason: str
    count: int = 0
    detail: Mapping[str, Any] = {}
    plugin: str = ""


class Eviction(msgspec.Struct, frozen=True, kw_only=True):
    """A task that is evicted. `reason`: the action or plugin that decided the eviction. `move_to`:
    a node with room for the task when it returns, if one was found. `claimant`: the podgroup that
    gets the evicted task's room; empty if none does.
    """

    task: str
    reason: str
    counts_as_retry: bool = True
    move_to: str = ""
    claimant: str = ""


class Choice(msgspec.Struct, frozen=True, kw_only=True):
    """The reason why the first task of a podgroup went to its node. `among`: the number of nodes
    that would have taken the task. `scores`: the score of `node` from each plugin that ranks nodes.
    `chooser`: the plugin that chose the node itself, if one did.
    """

    node: str
    among: int
    scores: Mapping[str, float]
    chooser: str = ""


class Timing(msgspec.Struct, frozen=True, kw_only=True):
    """The seconds that one part of the cycle took, by the caller's clock. `part` is cycle (all of
    it), session, plugin (opening a plugin), action, or hook. The seconds of a hook are included in
    those of the action that called it.
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
    """Why work was not placed. If the cycle does not explain, these are only the reasons that
    plugins gave for whole podgroups.
    """
    main: Mapping[str, tuple[Rejection, ...]] = {}
    """For each waiting podgroup, the few rejections without which it would not wait."""
    choices: Mapping[str, Choice] = {}
    """For the first podgroups that got places, the reason why the first task went to its node."""
    allocated_hypernodes: Mapping[str, str] = {}
    nominations: Mapping[str, str] = {}
    timings: tuple[Timing, ...] = ()
    warnings: tuple[str, ...] = ()
    acted: tuple[str, ...] = ()
    """Plugins that did their periodic work in this cycle. They go into `last_acted` of the next
    snapshot.
    """

    @property
    def evicted(self) -> tuple[str, ...]:
        return tuple(e.task for e in self.evictions)
