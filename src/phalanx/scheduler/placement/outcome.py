"""The outcome of choosing a node: a node, or a rejection with its reasons."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from phalanx.model.gpu_sharing import LIMIT, MEMORY, amount_text
from phalanx.model.readable import size

Reason = Literal["infeasible", "unavailable"]
"""`infeasible`: no node could ever run the work. `unavailable`: some node could run it, but none
can now.
"""

Filter = Literal[
    "draining", "excluded", "labels", "gpu type", "cpu only", "tried", "rack", "total", "free",
]  # fmt: skip
"""The reasons why filters turn nodes away. These come only from the policy `selector`: "gpu type"
(GPUs of another type), "cpu only" (the node has GPUs and the work needs none), "tried" (the node
was tried a moment ago without success), "rack" (another rack).
"""

GPU_TYPE_RESOURCE = "accelerator_type:"
"""The prefix of resources that stand for types of GPUs. With the option `accelerator_type`, a
request contains a small amount of such a resource.
"""

_WORDS: Mapping[Filter, str] = {
    "draining": "draining or dead",
    "excluded": "left out by the asker",
    "labels": "with other labels",
    "gpu type": "without GPUs of the requested type",
    "cpu only": "with GPUs, kept for work that asks for GPUs",
    "tried": "tried a moment ago without success",
    "rack": "in other racks than the rest of its job",
}


@dataclass(frozen=True, kw_only=True)
class TurnedAway:
    """How many nodes a filter turned away. A node counts only for the first filter that turned it
    away.

    The filters `total` and `free` also set `resource`, `asked`, and `most`: the largest amount that
    any of these nodes has in total, or has free.
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
        most, asked = f"{self.most:g} {self.resource}", f"{self.asked:g}"
        if self.resource in (MEMORY, LIMIT):
            most, asked = amount_text(self.resource, self.most), size(self.asked)
        return f"{nodes} with at most {most} {what}, {asked} asked"


@dataclass(frozen=True, kw_only=True)
class Placed:
    """A chosen node. `is_available` is False if the request must wait for room on that node."""

    node: str
    is_available: bool


@dataclass(frozen=True, kw_only=True)
class Rejection:
    """The outcome that no node was chosen. `turned_away`: the reasons, in the order of the
    filters.
    """

    reason: Reason
    turned_away: tuple[TurnedAway, ...] = ()

    def __str__(self) -> str:
        reasons = "; ".join(map(str, self.turned_away)) or "there are no nodes"
        return f"{self.reason}: {reasons}"


Outcome = Placed | Rejection
