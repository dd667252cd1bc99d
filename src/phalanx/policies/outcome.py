"""What a choice of a node comes to: a node, or a no with its reasons."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Reason = Literal["infeasible", "unavailable"]
"""`infeasible`: no node could ever; `unavailable`: some node could, none can now."""

Filter = Literal["draining", "excluded", "labels", "total", "free"]
"""Draining or dead; left out by the asker; other labels; has too little; has too little free."""


@dataclass(frozen=True, kw_only=True)
class TurnedAway:
    """How many nodes one filter turned away; each node counts for the first that did.

    `resource`, `asked` and `most` (the most that any of these nodes has or has free) are given
    by the filters `total` and `free`.
    """

    filter: Filter
    nodes: int
    resource: str | None = None
    asked: float = 0.0
    most: float = 0.0

    def __str__(self) -> str:
        nodes = f"{self.nodes} node{'' if self.nodes == 1 else 's'}"
        if self.filter == "draining":
            return f"{nodes} draining or dead"
        if self.filter == "excluded":
            return f"{nodes} left out by the asker"
        if self.filter == "labels":
            return f"{nodes} with other labels"
        what = "free" if self.filter == "free" else "in total"
        return f"{nodes} with at most {self.most:g} {self.resource} {what}, {self.asked:g} asked"


@dataclass(frozen=True, kw_only=True)
class Placed:
    """A node was chosen. `is_available` is False where the request has to wait on it."""

    node: str
    is_available: bool


@dataclass(frozen=True, kw_only=True)
class Rejection:
    """No node was chosen, and why: what each filter turned away, in the order of the filters."""

    reason: Reason
    turned_away: tuple[TurnedAway, ...] = ()

    def __str__(self) -> str:
        told = "; ".join(map(str, self.turned_away)) or "there are no nodes"
        return f"{self.reason}: {told}"


Outcome = Placed | Rejection
