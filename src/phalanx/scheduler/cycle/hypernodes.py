"""The tree of network domains: the nodes in each domain, and the smallest domain that contains two
others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from phalanx.scheduler.cycle.specs import HyperNodeSpec, NetworkTopology

TOP = "<cluster-top-hypernode>"
"""The domain that contains every node, one tier above the highest given tier."""


class HyperNodes:
    """The domains by name. `members` are indexes of nodes in the cycle's order."""

    def __init__(self, specs: Sequence[HyperNodeSpec], node_index: Mapping[str, int]) -> None:
        self.tier: dict[str, int] = {h.name: h.tier for h in specs}
        self.tier_name: dict[str, str] = {h.name: h.tier_name for h in specs}
        self.parent: dict[str, str] = {}
        for h in sorted(specs, key=lambda h: h.name):
            if h.parent in self.tier:
                self.parent[h.name] = h.parent
            for child in h.children:
                if child in self.tier:
                    self.parent.setdefault(child, h.name)
        self.given = bool(specs)
        self.tier[TOP] = max(self.tier.values(), default=0) + 1
        self.tier_name[TOP] = ""
        for name in self.tier:
            if name != TOP:
                self.parent.setdefault(name, TOP)
        self.children: dict[str, list[str]] = {name: [] for name in self.tier}
        for name in sorted(self.parent):
            self.children[self.parent[name]].append(name)
        self.members: dict[str, list[int]] = {
            h.name: sorted({node_index[n] for n in h.nodes if n in node_index}) for h in specs
        }
        self.members[TOP] = []
        for name in sorted(self.tier, key=lambda n: (self.tier[n], n)):
            inherited = {i for child in self.children[name] for i in self.members[child]}
            self.members[name] = sorted(inherited | set(self.members[name]))
        self.members[TOP] = sorted(node_index.values())
        self.tiers = sorted({t for n, t in self.tier.items() if n != TOP})
        lowest = self.tiers[0] if self.tiers else None
        self.lowest = sorted(n for n, t in self.tier.items() if t == lowest and n != TOP)
        self._lowest_of: dict[int, str] = {}
        for name in self.lowest:
            for i in self.members[name]:
                self._lowest_of.setdefault(i, name)

    def lowest_of(self, node: int) -> str:
        """Return the domain of the lowest tier that contains a node; "" if none does."""
        return self._lowest_of.get(node, "")

    def ancestors(self, name: str) -> list[str]:
        """Return `name` itself, then its parent, and so on up to the top."""
        out = []
        while name and name in self.tier and name not in out:
            out.append(name)
            name = self.parent.get(name, "")
        return out

    def common(self, a: str, b: str) -> str:
        """Return the smallest domain that contains both; if `a` or `b` is "", return the other
        one.
        """
        if not a or not b:
            return a or b
        of_a = set(self.ancestors(a))
        return next((x for x in self.ancestors(b) if x in of_a), "")

    def bound(self, topology: NetworkTopology) -> int | None:
        """Return the highest tier that the topology allows; None if the topology names an unknown
        tier.
        """
        if topology.highest_tier is not None:
            return topology.highest_tier
        named = [t for n, t in self.tier.items() if self.tier_name[n] == topology.highest_tier_name]
        return max(named, default=None)
