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
    """The ids of the nodes of these members; at most 16."""
    node_count: int
    first: str = ""
    """The node of the gang's first member. The fields below refer to this node. Only for the first
    32 gangs of a cycle, `first` and the fields below are filled.
    """
    among: int = 0
    """The number of nodes on which the first member could have been placed."""
    scores: dict[str, float] = msgspec.field(default_factory=dict)
    """The score that each ranking plugin gave to the node `first`. The node with the highest sum
    wins.
    """
    chooser: str = ""
    """The plugin that chose among the possible nodes regardless of the scores; "" if no plugin did
    that.
    """


class EvictedInfo(Row, frozen=True):
    """The members of a gang that a cycle evicted."""

    gang: str
    queue: str
    members: int
    action: str
    """The action or plugin that decided on the eviction: preempt, reclaim, ..."""
    claimant: str
    """The gang that gets the freed resources; "" if no gang gets them."""


class RefusedInfo(Row, frozen=True):
    """The refusal of a whole gang by a plugin. The scheduler then tries no node for the gang."""

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
    """The number of the cycle, counted from 1 at the head's start."""
    at: float
    """The start of the cycle, in seconds since the epoch; for several cycles, the start of the last
    one.
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
    """The gangs that get resources as soon as the evicted members have ended."""
    left: list[str]
    """The gangs that the cycle left waiting."""
    counts: dict[str, int]
    """For each of the lists above, by its name: the number of all its entries. The list itself has
    at most 200 of them.

    In an answer about several cycles, the lists themselves are empty.
    """
    warnings: list[str]
    refused: list[RefusedInfo] = msgspec.field(default_factory=list)
    """The waiting gangs that a plugin refused.

    For the other waiting gangs, no node had room: `explain` computes the reasons when it is called,
    from the state at that time.
    """
