"""Network domains: groups of nodes that are near each other, in which gangs with a topology are
placed.

Every node is a domain, whose devices are wired together. Domains that HyperNode manifests declare
are above the nodes. If none are declared, nodes with the same value of the label `rack` form a
domain.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from phalanx.head.nodes.record import NodeRecord
from phalanx.head.state_store import StateStore
from phalanx.manifests.hypernodes import HyperNode, resolve
from phalanx.model.jobs.topology import NetworkTopology
from phalanx.model.rows.cluster import HyperNodeInfo
from phalanx.scheduler.cycle.hypernodes import HyperNodes
from phalanx.scheduler.cycle.jobs import is_bound
from phalanx.scheduler.cycle.specs import HyperNodeSpec

RACK = "rack"
"""The node label that names the node's rack. The tier of racks has the same name."""
NODE, NVLINK = "node", "nvlink"
"""Two names of the tier of single nodes. NVLINK is one of them because the devices of a node are
wired together.
"""
NODE_TIER, RACK_TIER = 1, 2
"""The numbers of the tiers of nodes and racks if no HyperNode is declared."""

Totals = dict[str, float]


class _Wholes(Sequence[Totals]):
    """The totals of each node, computed on access. Most gangs find room on the first nodes, so the
    totals of other nodes are not computed.
    """

    def __init__(self, records: Sequence[NodeRecord]) -> None:
        self._records = records

    def __len__(self) -> int:
        return len(self._records)

    def __getitem__(self, at: Any) -> Any:
        found = self._records[at]
        return _Wholes(found) if isinstance(at, slice) else found.whole


class Domains:
    """The declared domains, by name."""

    def __init__(self, state_store: StateStore, changed: Callable[[], None]) -> None:
        """`changed` is called when the distances between nodes have changed."""
        self._state_store = state_store
        self._changed = changed
        self._declared: dict[str, HyperNode] = {}

    def put(self, domain: HyperNode) -> str:
        """Declare a domain, or replace its members. Returns "created" or "updated"."""
        done = "updated" if domain.name in self._declared else "created"
        self._declared[domain.name] = domain
        self._state_store.keep("hypernodes", domain.name.encode(), domain)
        self._changed()
        return done

    def has(self, name: str) -> bool:
        """Whether this domain was declared in a manifest."""
        return name in self._declared

    def delete(self, name: str) -> bool:
        """Delete a domain. Returns False if no domain has this name."""
        if self._declared.pop(name, None) is None:
            return False
        self._state_store.keep("hypernodes", name.encode(), None)
        self._changed()
        return True

    def load(self, domains: Iterable[HyperNode]) -> None:
        """Restore the stored domains."""
        for domain in domains:
            self._declared[domain.name] = domain

    # ---- questions ---------------------------------------------------------------------------

    def specs(self, records: Sequence[NodeRecord]) -> tuple[HyperNodeSpec, ...]:
        """Return all domains, with the nodes in each."""
        declared = [self._declared[name] for name in sorted(self._declared)]
        if not declared:
            return (*_nodes(records, NODE_TIER), *_racks(records))
        names = {record.node_id: (record.hostname,) for record in records}
        labels = {record.node_id: record.labels for record in records}
        above = resolve(declared, labels, names)
        return (
            *_nodes(records, min(domain.tier for domain in above) - 1),
            *(_of_domains(domain) for domain in above),
        )

    def topology(self, word: str) -> NetworkTopology | None:
        """Return the topology that a word stands for: "node" or "nvlink", "rack", or the name of a
        declared tier. Returns None for an empty word. Raises ValueError, with the known words, for
        any other word.
        """
        if not word:
            return None
        tiers = {d.tier_name for d in self._declared.values() if d.tier_name}
        known = [NODE, NVLINK, *(sorted(tiers) if self._declared else [RACK])]
        if word not in known:
            raise ValueError(f"topology is one of {', '.join(map(repr, known))}, not {word!r}")
        return NetworkTopology(highest_tier_name=NODE if word == NVLINK else word)

    def within(
        self, topology: NetworkTopology | None, records: Sequence[NodeRecord]
    ) -> list[Sequence[Totals]]:
        """Return the domains in which a gang with this topology may be placed as a whole, each as
        the totals of its nodes. Raises ValueError for an unknown tier name.
        """
        everything: list[Sequence[Totals]] = [_Wholes(records)]
        if topology is None or topology.mode != "hard" or not is_bound(topology):
            return everything
        specs = self.specs(records)
        tree = HyperNodes(specs, {record.node_id: i for i, record in enumerate(records)})
        bound = tree.bound(topology)
        if bound is None:
            known = ", ".join(sorted({repr(s.tier_name) for s in specs if s.tier_name}))
            raise ValueError(
                f"no domain is of tier {topology.highest_tier_name!r}; "
                f"the tiers with domains are {known}"
            )
        if bound > max(tree.tiers, default=0):
            return everything
        return [
            [records[i].whole for i in tree.members[spec.name]]
            for spec in specs
            if spec.tier <= bound
        ] or [[]]

    def rows(self, records: Sequence[NodeRecord]) -> list[HyperNodeInfo]:
        """Return every domain with its current nodes, for display."""
        specs = self.specs(records)
        tree = HyperNodes(specs, {record.node_id: i for i, record in enumerate(records)})
        return [
            HyperNodeInfo(
                name=spec.name,
                tier=spec.tier,
                tier_name=spec.tier_name,
                parent=spec.parent,
                nodes=[records[i].node_id for i in tree.members[spec.name]],
            )
            for spec in specs
        ]


def _nodes(records: Iterable[NodeRecord], tier: int) -> Iterable[HyperNodeSpec]:
    return (
        HyperNodeSpec(
            name=_domain_of(record.node_id), tier=tier, tier_name=NODE, nodes=(record.node_id,)
        )
        for record in records
    )


def _racks(records: Iterable[NodeRecord]) -> Iterable[HyperNodeSpec]:
    racks: dict[str, list[str]] = {}
    for record in records:
        if RACK in record.labels:
            racks.setdefault(record.labels[RACK], []).append(_domain_of(record.node_id))
    for rack, members in sorted(racks.items()):
        yield HyperNodeSpec(
            name=f"rack/{rack}", tier=RACK_TIER, tier_name=RACK, children=tuple(members)
        )


def _of_domains(domain: HyperNodeSpec) -> HyperNodeSpec:
    """Return the domain with each of its nodes replaced by that node's own domain."""
    children = (*domain.children, *map(_domain_of, domain.nodes))
    return HyperNodeSpec(
        name=domain.name,
        tier=domain.tier,
        tier_name=domain.tier_name,
        parent=domain.parent,
        children=children,
    )


def _domain_of(node_id: str) -> str:
    return f"node/{node_id}"
