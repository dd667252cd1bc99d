"""What a choice of a node comes to: a node, or a no with its reasons."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Reason = Literal["infeasible", "unavailable"]
"""`infeasible`: no node could ever; `unavailable`: some node could, none can now."""

Filter = Literal[
    "draining", "excluded", "labels", "gpu type", "cpu only", "tried", "rack", "total", "free",
]  # fmt: skip
"""Why a node is no answer. Of the selector alone: GPUs of another type; GPUs, and the work needs
none; asked in vain before; another rack."""

GPU_TYPE_RESOURCE = "accelerator_type:"
"""The option `accelerator_type` asks for a little of the resource with this prefix."""

_WORDS: Mapping[Filter, str] = {
    "draining": "draining or dead",
    "excluded": "left out by the asker",
    "labels": "with other labels",
    "gpu type": "without GPUs of the type asked for",
    "cpu only": "with GPUs, kept for work that asks for some",
    "tried": "asked a moment ago in vain",
    "rack": "in other racks than the rest of its job",
}


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
        if self.filter in _WORDS:
            return f"{nodes} {_WORDS[self.filter]}"
        if self.resource is not None and self.resource.startswith(GPU_TYPE_RESOURCE):
            return f"{nodes} without {self.resource.removeprefix(GPU_TYPE_RESOURCE)}"
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
        reasons = "; ".join(map(str, self.turned_away)) or "there are no nodes"
        return f"{self.reason}: {reasons}"


Outcome = Placed | Rejection
