"""A placement group's request, and its outcome."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from phalanx.scheduler.devices.cards import without_terms
from phalanx.scheduler.devices.sets import EMPTY, ResourceSet
from phalanx.scheduler.placement.labels import ANY_NODE, LabelSelector
from phalanx.scheduler.placement.outcome import Rejection

BundleStrategy = Literal["PACK", "SPREAD", "STRICT_PACK", "STRICT_SPREAD"]
"""PACK prefers one node, and SPREAD prefers different nodes. STRICT_PACK and STRICT_SPREAD require
this.
"""
_STRATEGIES = get_args(BundleStrategy)

Compat = Literal["none", "ray"]
"""Whether placement follows Ray where Ray's rules differ from Phalanx's. With `ray`, PACK takes the
emptiest node, and STRICT_SPREAD fails if a greedy choice fails.
"""


@dataclass(frozen=True, kw_only=True)
class BundleRequest:
    """Bundles that are placed together: all of them, or none.

    `selectors`: a label selector for each bundle, or none at all. `soft_target`: the node that
    STRICT_PACK takes if possible. `occupied`: nodes of bundles that are already placed, which
    STRICT_SPREAD avoids. `domain_label`: a label that must have the same value on the nodes of all
    bundles. `domain`: that value, if it is prescribed. Raises ValueError for a request that no
    cluster could place.
    """

    bundles: tuple[ResourceSet, ...]
    strategy: BundleStrategy = "PACK"
    selectors: tuple[LabelSelector, ...] = ()
    soft_target: str | None = None
    occupied: frozenset[str] = frozenset()
    domain_label: str | None = None
    domain: str | None = None
    scheduler_compat: Compat = "none"

    def __post_init__(self) -> None:
        if self.strategy not in _STRATEGIES:
            allowed = ", ".join(_STRATEGIES)
            raise ValueError(f"unknown bundle strategy {self.strategy!r}; allowed: {allowed}")
        if not self.bundles:
            raise ValueError("a placement group has at least one bundle")
        for at, bundle in enumerate(self.bundles):
            if not bundle:
                raise ValueError(f"bundle {at} asks for nothing; give an amount above zero")
        if self.selectors and len(self.selectors) != len(self.bundles):
            raise ValueError(
                f"{len(self.bundles)} bundles take {len(self.bundles)} label selectors or none, "
                f"not {len(self.selectors)}"
            )
        if self.soft_target is not None and self.strategy != "STRICT_PACK":
            raise ValueError(f"a soft target node goes with STRICT_PACK, not {self.strategy}")

    def selector(self, bundle: int) -> LabelSelector:
        """Return the label selector of a bundle."""
        return self.selectors[bundle] if self.selectors else ANY_NODE

    def summed(self) -> ResourceSet:
        """Return the sum of all bundles' requests without terms, because a sum of terms has no
        meaning.
        """
        return sum(map(without_terms, self.bundles), EMPTY)

    def hardest_first(self) -> list[int]:
        """Return the bundles' indexes, ordered by the scarcest resource that each bundle requests.
        GPU is the scarcest, followed by custom resources, object store memory, memory and CPU.
        """
        if len(self.bundles) == 1:
            return [0]
        common = ("GPU", "object_store_memory", "memory", "CPU")
        custom = sorted({name for bundle in self.bundles for name in bundle} - set(common))
        names = ("GPU", *custom, *common[1:])
        return sorted(
            range(len(self.bundles)),
            key=lambda at: ([-self.bundles[at].get(name, 0) for name in names], at),
        )


@dataclass(frozen=True, kw_only=True)
class BundlesPlaced:
    """The node of each bundle, in the order of the bundles, and `domain` if the group asked for
    one.
    """

    nodes: tuple[str, ...]
    domain: str | None = None


@dataclass(frozen=True, kw_only=True)
class BundleRejection(Rejection):
    """A rejection of a group. `bundle`: the first bundle that found no node; None if the reason
    concerns all bundles.
    """

    bundle: int | None = None
    detail: str = ""

    def __str__(self) -> str:
        which = "the group" if self.bundle is None else f"bundle {self.bundle}"
        detail = f": {self.detail}" if self.detail else ""
        return f"{which}{detail}; {super().__str__()}"
