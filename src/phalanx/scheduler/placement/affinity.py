"""Strategies that name nodes: one node by its id, and label selectors with fallbacks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from phalanx.scheduler.devices.ports import RandomSource
from phalanx.scheduler.placement.hybrid import Hybrid
from phalanx.scheduler.placement.labels import LabelSelector
from phalanx.scheduler.placement.node_table import Flags
from phalanx.scheduler.placement.outcome import Outcome, Placed, Rejection, TurnedAway
from phalanx.scheduler.placement.request_class import ClusterView, Request
from phalanx.scheduler.placement.strategy import Asking, Strategy, placed


@dataclass(frozen=True, kw_only=True)
class NodeAffinity:
    """The strategy that names one node by its id. The node is chosen if it is alive and feasible,
    even if it is busy.

    `soft`: whether the strategy `otherwise` decides if the node is dead or infeasible.
    `spill_on_unavailable` (soft only): whether `otherwise` also decides if the node is busy.
    `fail_on_unavailable` (hard only): whether the request is rejected if the node is busy.
    """

    node: str
    soft: bool = False
    spill_on_unavailable: bool = False
    fail_on_unavailable: bool = False
    otherwise: Strategy = field(default_factory=Hybrid)

    def __post_init__(self) -> None:
        if self.spill_on_unavailable and not self.soft:
            raise ValueError("_spill_on_unavailable needs soft=True: a hard affinity never spills")
        if self.fail_on_unavailable and self.soft:
            raise ValueError("_fail_on_unavailable needs soft=False: a soft affinity never fails")

    def pick(
        self, view: ClusterView, request: Request, asking: Asking, rng: RandomSource
    ) -> Outcome:
        """Return the named node, or the choice of `otherwise`, or the reasons why a hard affinity
        fails.
        """
        known = view.of(request)
        row = view.nodes.row_of.get(self.node)
        if row is not None and known.feasible[row]:
            is_available = bool(known.available[row])
            needs_available = self.spill_on_unavailable or self.fail_on_unavailable
            if is_available or not needs_available:
                return placed(view, row, is_available)
        if self.soft:
            return self.otherwise.pick(view, request, asking, rng)
        if row is None:
            return Rejection(reason="infeasible")
        others = np.ones(len(view.nodes), np.bool_)
        others[row] = False
        return known.rejection({"excluded": others})


@dataclass(frozen=True, kw_only=True)
class WithFallbacks:
    """Label selectors in order of preference. The first selector that an available node satisfies
    decides. Without such a selector, the request waits for a node of the first selector that a
    feasible node satisfies.
    """

    fallbacks: Sequence[LabelSelector] = ()
    strategy: Strategy = field(default_factory=Hybrid)

    def pick(
        self, view: ClusterView, request: Request, asking: Asking, rng: RandomSource
    ) -> Outcome:
        """Pick a node with the selector of `request` or, if that yields no available node, with
        each fallback in turn.
        """
        busy: Placed | None = None
        noes: list[Rejection] = []
        for selector in (request.selector, *self.fallbacks):
            outcome = self.strategy.pick(view, replace(request, selector=selector), asking, rng)
            if isinstance(outcome, Rejection):
                noes.append(outcome)
            elif outcome.is_available:
                return outcome
            elif busy is None:
                busy = outcome
        return busy if busy is not None else _least_final(noes)


def random_flagged(flags: Flags, excluded: list[int], rng: RandomSource) -> int | None:
    """Return the index of a random row that is flagged and not excluded; None if there is no such
    row. Each such row is equally likely.
    """
    rows = np.flatnonzero(flags)
    if excluded:
        rows = rows[~np.isin(rows, excluded)]
    return int(rows[rng.randrange(rows.size)]) if rows.size else None


def _least_final(noes: list[Rejection]) -> Rejection:
    """Return the first rejection with the reason "unavailable". If there is none, return an
    "infeasible" rejection with the reasons of the first selector.
    """
    turned_away: tuple[TurnedAway, ...] = noes[0].turned_away
    for no in noes:
        if no.reason == "unavailable":
            return no
    return Rejection(reason="infeasible", turned_away=turned_away)
