"""Rows of what the scheduler decided: cycles, and what each came to for whom."""

from __future__ import annotations

import msgspec

from phalanx.model.rows.row import Row


class PlacedInfo(Row, frozen=True):
    """Members of a gang that a cycle gave places."""

    gang: str
    """NAMESPACE/NAME; of a job, the job's."""
    queue: str
    members: int
    nodes: list[str]
    """Their ids, the first 16 of them."""
    node_count: int
    first: str = ""
    """Where its first member went, of which the rest is said; empty where nobody noted it, which is
    done for the first 32 gangs of a cycle."""
    among: int = 0
    """So many nodes would have taken that member."""
    scores: dict[str, float] = msgspec.field(default_factory=dict)
    """What each plugin that ranks nodes gave the one that it got; the highest sum wins."""
    chooser: str = ""
    """The plugin that chose among them by itself, whatever the scores."""


class EvictedInfo(Row, frozen=True):
    """Members of a gang that a cycle took places from."""

    gang: str
    queue: str
    members: int
    action: str
    """Which action or plugin decided it: preempt, reclaim, ..."""
    claimant: str
    """The gang that gets their room; empty where it is nobody's."""


class RefusedInfo(Row, frozen=True):
    """What a plugin said of a gang as a whole, so that no node was asked for it."""

    gang: str
    plugin: str
    code: str
    """As in `explain`."""
    sentence: str


class CycleInfo(Row, frozen=True):
    """One cycle; or several on end that decided nothing, and left the same gangs waiting."""

    number: int
    """Counts up from 1 since the head began."""
    at: float
    """When it began, in seconds since the epoch; of several, the last."""
    repeats: int
    """So many more on end came to the same."""
    took_s: float
    """With what carrying it out took at the head; of several, the longest."""
    read_s: float
    """Of that, bringing up to date what it looks at."""
    actions: dict[str, float]
    """Seconds of each action."""
    may_evict: bool
    """Whether it had actions that take places away: those run less often."""
    considered: int
    """Gangs that waited."""
    placed: list[PlacedInfo]
    evicted: list[EvictedInfo]
    promised: list[str]
    """Gangs that get room once those that were evicted have gone."""
    left: list[str]
    """Gangs that got nothing."""
    counts: dict[str, int]
    """How many gangs of each of these there are: at most 200 of each are named, and none in a list
    of cycles."""
    warnings: list[str]
    refused: list[RefusedInfo] = msgspec.field(default_factory=list)
    """Of those left, which a plugin refused; why nodes refused others is worked out for who asks
    (`explain`), as things are then."""
