"""Rows of the scheduler's decisions: cycles, and their results for gangs."""

from __future__ import annotations

import msgspec

from phalanx.model.rows.row import Row


class PlacedInfo(Row, frozen=True):
    """Members of a gang to which a cycle gave places."""

    gang: str
    """NAMESPACE/NAME of the gang or the job."""
    queue: str
    members: int
    nodes: list[str]
    """Their ids, the first 16 of them."""
    node_count: int
    first: str = ""
    """The node of its first member, to which the fields below refer.

    Empty if it was not recorded; it is recorded for the first 32 gangs of a cycle.
    """
    among: int = 0
    """The number of nodes that would have taken that member."""
    scores: dict[str, float] = msgspec.field(default_factory=dict)
    """The score of its node from each plugin that ranks nodes; the highest sum wins."""
    chooser: str = ""
    """The plugin that chose among those nodes itself, whatever the scores."""


class EvictedInfo(Row, frozen=True):
    """Members of a gang that lost their places to a cycle."""

    gang: str
    queue: str
    members: int
    action: str
    """The action or plugin that decided it: preempt, reclaim, ..."""
    claimant: str
    """The gang that gets their room; empty if none does."""


class RefusedInfo(Row, frozen=True):
    """A plugin's refusal of a gang as a whole, so that no node was asked for it."""

    gang: str
    plugin: str
    code: str
    """The code, as in `explain`."""
    sentence: str


class CycleInfo(Row, frozen=True):
    """One cycle; or several in a row that decided nothing, and left the same gangs waiting."""

    number: int
    """Counts up from 1 since the head began."""
    at: float
    """When it began, in seconds since the epoch; for several, the last one's."""
    repeats: int
    """How many more cycles in a row had the same result."""
    took_s: float
    """Seconds that it took, with carrying out its plan at the head; for several, the longest."""
    read_s: float
    """The part of that for bringing the snapshot up to date."""
    actions: dict[str, float]
    """Seconds of each action."""
    may_evict: bool
    """Whether it had actions that evict: those run less often."""
    considered: int
    """Gangs that waited."""
    placed: list[PlacedInfo]
    evicted: list[EvictedInfo]
    promised: list[str]
    """Gangs that get room once the evicted ones have gone."""
    left: list[str]
    """Gangs that got nothing."""
    counts: dict[str, int]
    """The number of gangs in each of these lists.

    At most 200 gangs are named in each, and none in a list of cycles.
    """
    warnings: list[str]
    refused: list[RefusedInfo] = msgspec.field(default_factory=list)
    """The gangs left waiting that a plugin refused.

    Why nodes refused others is computed on request (`explain`), from the state at that time.
    """
