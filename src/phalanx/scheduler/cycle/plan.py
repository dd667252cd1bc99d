"""The decisions of a cycle, and the reasons why all other work must wait, as immutable values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec


class Rejection(msgspec.Struct, frozen=True, kw_only=True):
    """One typed reason why something was refused.

    `reason` is a code of explain.REASONS. `count`: the number of nodes, tasks, or podgroups ahead
    that the reason is about. `detail`: the numbers behind the reason. `plugin`: the plugin that
    refused; "" if the cycle itself refused, for example for lack of room.
    """

    reason: str
    count: int = 0
    detail: Mapping[str, Any] = {}
    plugin: str = ""


class Eviction(msgspec.Struct, frozen=True, kw_only=True):
    """A task that is evicted. `reason`: the action or plugin that decided the eviction. `move_to`:
    a node on which the task can start again, if one was found. `claimant`: the podgroup that gets
    the evicted task's room; empty if none does.
    """

    task: str
    reason: str
    counts_as_retry: bool = True
    move_to: str = ""
    claimant: str = ""


class Choice(msgspec.Struct, frozen=True, kw_only=True):
    """The reason why the first task of a podgroup went to its node. `among`: the number of nodes
    that would have taken the task. `scores`: the score of `node` from each plugin that ranks nodes.
    `chooser`: the plugin that chose the node regardless of scores; "" if none did.
    """

    node: str
    among: int
    scores: Mapping[str, float]
    chooser: str = ""


class Timing(msgspec.Struct, frozen=True, kw_only=True):
    """The seconds that one part of a cycle took, by the caller's clock. `part`: "cycle" (the
    whole), "session", "plugin" (the opening of a plugin), "action" or "hook". The action that
    called a hook includes the hook's seconds.
    """

    part: str
    name: str
    seconds: float


class MovedJob(msgspec.Struct, frozen=True, kw_only=True):
    """A podgroup that is moved: the number of its tasks, the seconds of its work that are lost, and
    the seconds that its restart takes.
    """

    podgroup: str
    tasks: int
    lost_s: float
    restart_s: float


class Moves(msgspec.Struct, frozen=True, kw_only=True):
    """The podgroups that are moved so that the podgroup `claimant` can start."""

    claimant: str
    jobs: tuple[MovedJob, ...]

    @property
    def lost_s(self) -> float:
        """The seconds of work that all of these podgroups lose together."""
        return sum(one.lost_s for one in self.jobs)

    @property
    def restart_s(self) -> float:
        """The seconds that the restarts of all of these podgroups take together."""
        return sum(one.restart_s for one in self.jobs)


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """The decisions of one cycle, before any of them is applied. Names are namespace/name."""

    binds: Mapping[str, str]
    """The node of each task that gets its place now, in the order of the decisions."""
    evictions: tuple[Eviction, ...]
    pipelined: Mapping[str, str]
    phases: Mapping[str, str]
    rejections: Mapping[str, tuple[Rejection, ...]]
    """Why work was not placed. If the cycle does not explain, these are only the reasons that
    plugins gave for whole podgroups.
    """
    main: Mapping[str, tuple[Rejection, ...]] = {}
    """For each waiting podgroup: the few reasons without which it would not wait."""
    choices: Mapping[str, Choice] = {}
    """Why the first task of a podgroup went to its node, for the first podgroups that got
    places.
    """
    allocated_hypernodes: Mapping[str, str] = {}
    nominations: Mapping[str, str] = {}
    homes: Mapping[str, str] = {}
    """The nodes that moves set aside for tasks that have no place there yet."""
    held: tuple[str, ...] = ()
    """The tasks in `homes` that are still leaving the nodes from which they are moved."""
    moves: tuple[Moves, ...] = ()
    """The moves that this cycle decided."""
    timings: tuple[Timing, ...] = ()
    warnings: tuple[str, ...] = ()
    acted: tuple[str, ...] = ()
    """Plugins that did their periodic work in this cycle. The next snapshot lists them in
    `last_acted`.
    """

    @property
    def evicted(self) -> tuple[str, ...]:
        return tuple(e.task for e in self.evictions)
