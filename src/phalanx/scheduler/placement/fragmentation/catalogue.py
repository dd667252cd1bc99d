"""The node policies by name, and the function that makes each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from phalanx.errors import PhalanxError
from phalanx.scheduler.placement.fragmentation import published, scarcity
from phalanx.scheduler.placement.fragmentation.mix import typical_mix
from phalanx.scheduler.placement.fragmentation.nodes import GpuNodes
from phalanx.scheduler.placement.fragmentation.placer import NodePolicy
from phalanx.scheduler.placement.fragmentation.shape import Shape

Past = Iterable[Shape] | Mapping[Shape, int]
Maker = Callable[[GpuNodes, Past, published.Draws], NodePolicy]
"""Makes a policy from the nodes, past pods, and a random generator."""

POLICIES: dict[str, Maker] = {
    "random": lambda nodes, past, draws: published.Random(nodes, draws),
    "dotprod": lambda nodes, past, draws: published.DotProd(nodes),
    "gpuclustering": lambda nodes, past, draws: published.GpuClustering(nodes),
    "gpupacking": lambda nodes, past, draws: published.GpuPacking(nodes),
    "bestfit": lambda nodes, past, draws: published.BestFit(nodes),
    "fgd": lambda nodes, past, draws: published.FragmentationDescent(nodes, typical_mix(past)),
    "scarcity": lambda nodes, past, draws: scarcity.ScarcityDescent(nodes),
    "firstfit": lambda nodes, past, draws: published.FirstFit(nodes),
}
"""The maker of each policy, by name."""


RECOMMENDED = "scarcity"
"""The name of the policy that is used if none is named."""


class UnknownPolicyError(PhalanxError, ValueError):
    """A name that belongs to no node policy."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name

    def __str__(self) -> str:
        return f"there is no policy {self.name!r}; known policies: {', '.join(POLICIES)}"


def canonical(name: str) -> str:
    """Return a policy's name in the form that `POLICIES` uses. Case and hyphens do not matter.
    Raises UnknownPolicyError.
    """
    plain = name.lower().replace("-", "").replace("_", "")
    if plain not in POLICIES:
        raise UnknownPolicyError(name)
    return plain


def maker_of(name: str) -> Maker:
    """Return the maker of the policy with that name. Raises UnknownPolicyError."""
    return POLICIES[canonical(name)]
