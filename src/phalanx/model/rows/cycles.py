"""Rows of the scheduler's decisions: cycles, and their results for gangs."""

from __future__ import annotations

import msgspec

from phalanx.model.rows.row import Row


class PlacedInfo(Row, frozen=True):
    """The members of a gang that a cycle placed."""

    gang: str
    """The gang or the job, as NAMESPACE/NAME."""
    queue: str
    members: int
    nodes: list[str]
    """The ids of the first 16 nodes of these members."""
    node_count: int
    first: str = ""
    """The node of the gang's first member; the fields below refer to this node. It is recorded for
    the first 32 gangs of a cycle, and empty for the others.
    """
    among: int = 0
    """The number of nodes on which that member could have been placed."""
    scores: dict[str, float] = msgspec.field(default_factory=dict)
    """The score that each ranking plugin gave to this node. The node with the highest sum wins."""
    chooser: str = ""
    """The plugin that chose among those nodes itself, regardless of the scores."""


class EvictedInfo(Row, frozen=True):
    """The members of a gang that a cycle evicted."""

    gang: str
    queue: str
    members: int
    action: str
    """The action or plugin that decided on the eviction: preempt, reclaim, ..."""
    claimant: str
    """The gang that gets the freed resources; empty if no gang does."""


class RefusedInfo(Row, frozen=True):
    """The refusal of a whole gang by a plugin, after which the scheduler tried no node."""

    gang: str
    plugin: str
    code: str
    """The code of the reason, as `phalanx explain` shows it."""
    sentence: str


class CycleInfo(Row, frozen=True):
    """One cycle, or several successive cycles that decided nothing and left the same gangs
    waiting.
    """

    number: int
    """The number of the cycle; the first cycle after the head's start is 1."""
    at: float
    """When the cycle began, in seconds since the epoch; for several cycles, when the last one
    began.
    """
    repeats: int
    """The number of further successive cycles with the same result."""
    took_s: float
    """Seconds that the cycle took, including the time in which the head carried out its plan; for
    several cycles, the longest time.
    """
    read_s: float
    """The seconds of `took_s` in which the snapshot was updated."""
    actions: dict[str, float]
    """The seconds that each action took, by its name."""
    may_evict: bool
    """Whether the cycle ran the actions that evict. Not every cycle runs these."""
    considered: int
    """The number of gangs that waited."""
    placed: list[PlacedInfo]
    evicted: list[EvictedInfo]
    promised: list[str]
    """Gangs that get resources as soon as the evicted members have ended."""
    left: list[str]
    """Gangs that the cycle left waiting."""
    counts: dict[str, int]
    """The full length of each of the lists above, which name at most 200 gangs each.

    In a list of cycles they name none.
    """
    warnings: list[str]
    refused: list[RefusedInfo] = msgspec.field(default_factory=list)
    """The gangs left waiting that a plugin refused.

    No node took the other gangs: `explain` computes the reasons on request, from the state at the
    time of the request.
    """
