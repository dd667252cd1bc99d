"""Cases about bundles that are placed together, and about tasks that run in them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from phalanx.policies.bundles.domain import GPU_DOMAIN, pick_bundles
from phalanx.policies.bundles.placement import BundleOutcome
from phalanx.policies.bundles.request import BundleRequest, BundlesPlaced
from phalanx.policies.bundles.room import leftover_of
from phalanx.policies.bundles.slots import PlacedBundle, Slot, pick_bundle
from phalanx.policies.cases.cluster import Cluster, amounts, selector_of
from phalanx.policies.cases.compare import (
    Case,
    Finding,
    Findings,
    No,
    Unusable,
    amounts_in,
    chosen,
    equal,
    expectation,
    need,
    said_bundles,
)
from phalanx.policies.outcome import Rejection
from phalanx.resources.sets import ResourceSet

_TIMES = re.compile(r"(\d+)\s*x\s*(\{.*\})")


def bundle(case: Case) -> Findings:
    """One group on one set of nodes."""
    cluster = Cluster(need(case, "nodes"))
    outcome = _pick(case, cluster)
    yield _compared("", expectation(case), outcome, cluster)


def bundle_sequence(case: Case) -> Findings:
    """The same group several times over, each counted before the next."""
    cluster = Cluster(need(case, "nodes"))
    groups: Counter[str] = Counter()
    bundles: Counter[str] = Counter()
    placed = 0
    for _ in range(case.get("repeat", 1)):
        outcome = _pick(case, cluster)
        if isinstance(outcome, Rejection):
            continue
        placed += 1
        names = [cluster.name_of(node) for node in outcome.nodes]
        bundles.update(names)
        groups.update(set(names))
        for node, resources in zip(outcome.nodes, _bundles(case), strict=True):
            cluster.view.nodes.take(node, resources)
    expected = need(case, "expect")
    got = {
        "groups_per_node": dict(sorted(groups.items())),
        "bundles_per_node": dict(sorted(bundles.items())),
        "placed": placed,
    }
    if not isinstance(expected, Mapping):
        raise Unusable(f"a sequence of groups expects {', '.join(got)}, not {expected!r}")
    yield equal("", expected, {key: got.get(key) for key in expected})


def bundle_domain(case: Case) -> Findings:
    """One group inside one domain of nodes."""
    cluster = Cluster(need(case, "nodes"))
    outcome = _pick(case, cluster)
    expected = need(case, "expect")
    if not isinstance(expected, Mapping) or isinstance(outcome, Rejection):
        yield _compared("", expected, outcome, cluster)
        return
    nodes = outcome.nodes
    got = {
        "domain": outcome.domain,
        "nodes": len(set(nodes)),
        "one_bundle_per_node": len(set(nodes)) == len(nodes),
        "placed": len(nodes),
    }
    yield equal("", expected, {key: got.get(key) for key in expected})


def scorer(case: Case) -> Findings:
    """How well one bundle fits one node: the part left over, or -1."""
    got = leftover_of(amounts(need(case, "available")), amounts(need(case, "request")))
    yield equal("", need(case, "expect"), got)


def pg_affinity(case: Case) -> Findings:
    """The node of the bundle that takes a task."""
    listed = need(case, "bundles")
    named = listed if isinstance(listed, Mapping) else dict(enumerate(listed))
    shape = amounts(case.get("bundle_shape"))
    left = case.get("available") or {}
    placed = [
        PlacedBundle(
            node=str(node),
            total=shape,
            available=amounts(left[index]) if index in left else shape,
        )
        for index, node in sorted(named.items(), key=lambda pair: int(pair[0]))
    ]
    try:
        found = pick_bundle(placed, amounts(need(case, "request")), case.get("bundle_index", -1))
    except ValueError:
        found = Rejection(reason="infeasible")
    # Ray goes to a bundle only when it has room now; ours waits for the bundle.
    if isinstance(found, Slot):
        got = found.node if found.is_available else No("unavailable")
    else:
        got = No(found.reason)
    yield chosen("", expectation(case), lambda _: got)


def _pick(case: Case, cluster: Cluster) -> BundleOutcome:
    words = str(case.get("strategy", "PACK")).split()
    domain_label = case.get("domain_label") or (GPU_DOMAIN if "domain" in " ".join(words) else None)
    selectors = case.get("bundle_label_selector") or ()
    options = {**case, **(case.get("options") or {})}
    occupied = _first(options, ("occupied", "existing", "excluded", "siblings")) or ()
    if isinstance(occupied, Mapping):
        occupied = occupied.values()
    target = _first(options, ("soft_target", "soft_target_node", "soft_target_node_id"))
    bundles = _bundles(case)
    return pick_bundles(
        cluster.view,
        BundleRequest(
            bundles=bundles,
            strategy=words[0],  # type: ignore[arg-type]  # checked by the request itself
            selectors=tuple(selector_of(one) for one in selectors),
            soft_target=cluster.id_of(target),
            occupied=frozenset(cluster.id_of(name) or name for name in occupied),
            domain_label=domain_label,
            domain=case.get("domain"),
            scheduler_compat="ray",
        ),
    )


def _first(given: Mapping[str, Any], keys: tuple[str, ...]) -> Any:
    return next((given[key] for key in keys if key in given), None)


def _bundles(case: Case) -> tuple[ResourceSet, ...]:
    listed = need(case, "bundles")
    if not isinstance(listed, str):
        return tuple(amounts(one) for one in listed)
    found = _TIMES.fullmatch(listed.strip())
    if not found:
        raise Unusable(f"bundles are a list, or like '15 x {{CPU 2, GPU 4}}', not {listed!r}")
    return (amounts(amounts_in(found[2])),) * int(found[1])


def _compared(what: str, expected: Any, outcome: BundleOutcome, cluster: Cluster) -> Finding:
    got = said_bundles(outcome, cluster.name_of)
    if isinstance(outcome, BundlesPlaced) and isinstance(expected, Mapping):
        names = [cluster.name_of(node) for node in outcome.nodes]
        facts = {
            "placed": len(names),
            "nodes": len(set(names)),
            "distinct_nodes": len(set(names)),
            "same_node": len(set(names)) == 1,
            "one_bundle_per_node": len(set(names)) == len(names),
            "bundles_per_node": dict(sorted(Counter(names).items())),
        }
        if expected.keys() <= facts.keys():
            return equal(what, expected, {key: facts[key] for key in expected})
    if expected == "placed" and isinstance(outcome, BundlesPlaced):
        return Finding(what=what, expected=expected, got=got, agrees=True)
    return chosen(what, expected, lambda _: got)


AREAS: Mapping[str, Callable[[Case], Findings]] = {
    "bundle": bundle,
    "bundle_sequence": bundle_sequence,
    "bundle_domain": bundle_domain,
    "scorer": scorer,
    "pg_affinity": pg_affinity,
}
