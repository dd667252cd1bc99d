"""Cases about one node for one request."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from phalanx.policies.affinity import NodeAffinity, NodeLabels, WithFallbacks
from phalanx.policies.cases.cluster import LOCAL, Cluster, request_of, selector_of
from phalanx.policies.cases.compare import (
    NO_NODE,
    Case,
    Finding,
    Findings,
    No,
    Unusable,
    chosen,
    equal,
    expectation,
    need,
    only_known,
    said,
)
from phalanx.policies.hybrid import Hybrid
from phalanx.policies.labels import parse_condition
from phalanx.policies.locality import best_holder
from phalanx.policies.outcome import Placed
from phalanx.policies.seeded import Seeded
from phalanx.policies.spread import RandomAvailable, Spread
from phalanx.policies.strategy import Strategy

_HYBRID_OPTIONS = (
    "thr", "k_abs", "k", "frac", "k_frac", "avoid_gpu", "preferred", "require_available",
    "avoid_local",
)  # fmt: skip


def hybrid(case: Case) -> Findings:
    """DEFAULT, with the options that the case gives."""
    options = case.get("options") or {}
    only_known(options, _HYBRID_OPTIONS)
    yield _one(case, Cluster(need(case, "nodes")), _hybrid(options))


def hybrid_topk(case: Case) -> Findings:
    """Scores instead of nodes: who may be taken of the first k."""
    scores = need(case, "scores")
    full = 10_000
    nodes = {
        name: {"total": {"CPU": full}, "available": {"CPU": full * (1 - score)}}
        for name, score in scores.items()
    }
    k = case.get("k", case.get("k_abs", 1))
    strategy = Hybrid(
        spread_threshold=0.0,
        top_k_absolute=k,
        top_k_fraction=case.get("frac", 0),
        avoid_gpu_nodes=False,
    )
    given = {"preferred": case.get("preferred"), **(case.get("options") or {})}
    bare = {"request": {}, "expect": expectation(case), "options": given}
    yield _one(bare, Cluster(nodes), strategy)


def utilization(case: Case) -> Findings:
    """How loaded one node is."""
    state = Cluster({"n": need(case, "node")}).view.nodes.states[0]
    yield equal("", need(case, "expect"), state.utilization())


def fit(case: Case) -> Findings:
    """Whether one node could ever hold a request, and whether it can now."""
    known = Cluster({"n": need(case, "node")}).view.of(request_of(case))
    got = {"feasible": bool(known.feasible[0]), "available": bool(known.available[0])}
    expected = need(case, "expect")
    yield equal("", expected, {key: got[key] for key in got if key in expected})


def sequence(case: Case) -> Findings:
    """Decisions one after the other, each counted before the next."""
    for count, nodes in _each_count(need(case, "nodes")):
        cluster = Cluster(nodes)
        strategy = _hybrid(case.get("options") or {})
        if "steps" in case:
            yield from _steps(case, cluster, strategy, reserve=True)
            continue
        answers = [_decide(case, cluster, strategy, 0, reserve=True)]
        while answers[-1] in cluster_names(cluster) and len(answers) <= 1000:
            answers.append(_decide(case, cluster, strategy, 0, reserve=True))
        yield equal(f"k={count}", _expected_answers(need(case, "expect"), count), _plain(answers))


def spread(case: Case) -> Findings:
    """SPREAD: the place in the round is kept from step to step."""
    cluster = Cluster(need(case, "nodes"))
    strategy = Spread()
    if "steps" in case:
        yield from _steps(case, cluster, strategy)
    else:
        yield _one(case, cluster, strategy)


def random(case: Case) -> Findings:
    """RANDOM: which nodes are seen in many draws."""
    cluster, strategy = Cluster(need(case, "nodes")), RandomAvailable()
    draws = case.get("repeat", 1000)
    yield chosen("", expectation(case), lambda seed: _decide(case, cluster, strategy, seed), draws)


def node_affinity(case: Case) -> Findings:
    """One node by its name."""
    cluster = Cluster(need(case, "nodes"))
    options = {key.lstrip("_"): value for key, value in (case.get("options") or {}).items()}
    flags = ("soft", "spill_on_unavailable", "fail_on_unavailable")
    only_known(options, (*flags, *_HYBRID_OPTIONS))
    strategy = NodeAffinity(
        node=cluster.id_of(need(case, "target")) or "",
        otherwise=_hybrid(options),
        **{flag: bool(options.get(flag, False)) for flag in flags},
    )
    yield _one({**case, "options": options}, cluster, strategy)


def label_selector(case: Case) -> Findings:
    """A selector with fallbacks, or hard and soft conditions."""
    cluster = Cluster(need(case, "nodes"))
    if "hard" in case or "soft" in case:
        strategy: Strategy = NodeLabels(
            hard=selector_of(case.get("hard")), soft=selector_of(case.get("soft"))
        )
    else:
        options = case.get("options") or {}
        only_known(options, _HYBRID_OPTIONS)
        listed = case.get("fallback", case.get("fallbacks")) or []
        fallbacks = [selector_of(one.get("label_selector", one)) for one in listed]
        strategy = WithFallbacks(fallbacks=fallbacks, strategy=_hybrid(options))
    yield _one(case, cluster, strategy)


def label_parse(case: Case) -> Findings:
    """The text of one label's condition."""
    text, expected = need(case, "text"), need(case, "expect")
    try:
        parsed = parse_condition(str(case.get("key", "key")), text)
    except ValueError as error:
        is_error = expected in ("error", "invalid", "ValueError", None) or (
            isinstance(expected, Mapping) and "error" in expected
        )
        yield Finding(what="", expected=expected, got=f"error: {error}", agrees=is_error)
        return
    values = sorted(parsed.values)
    got = {"op": parsed.operator, "values": values}
    if not isinstance(expected, Mapping) or "op" not in expected:
        yield Finding(what="", expected=expected, got=got, agrees=False)
        return
    spelled = re.sub(r"[^a-z]", "", str(expected["op"]).lower().replace("!", "not"))
    agrees = spelled == parsed.operator.replace(" ", "")
    agrees = agrees and sorted(map(str, expected.get("values", ()))) == values
    yield Finding(what="", expected=expected, got=got, agrees=agrees)


def infeasible(case: Case) -> Findings:
    """What becomes of a request that comes in at the local node: it starts a worker there, goes
    to another node, or queues; and again with each `then`, after nodes were added."""
    nodes = dict(need(case, "nodes"))
    later = case.get("then") or ()
    for at, step in enumerate([case, *([later] if isinstance(later, Mapping) else later)]):
        nodes.update(step.get("add") or {})
        cluster = Cluster(nodes)
        outcome = Hybrid(avoid_gpu_nodes=False, top_k_fraction=0).pick(
            cluster.view, request_of({**case, **step}), cluster.asking({}), Seeded(0)
        )
        answer = said(outcome, cluster.name_of)
        starts = isinstance(outcome, Placed) and outcome.is_available
        what, expected = (f"then {at}" if at else ""), expectation(step)
        if isinstance(expected, Mapping) and "any_of" not in expected:
            got = {
                "queued": not starts,
                "worker_started": starts and answer == LOCAL,
                "infeasible": answer == "infeasible",
                "node": answer if starts else None,
            }
            yield equal(what, expected, {key: got.get(key) for key in expected})
        else:
            yield chosen(what, expected, _always(answer))


def locality(case: Case) -> Findings:
    """Whom an asker turns to first."""
    by_name = str(case.get("strategy") or "DEFAULT").upper()
    named = case.get("target", case.get("node"))
    got = best_holder(
        case.get("bytes") or {}, LOCAL, named, by_locality=by_name in ("DEFAULT", "NONE")
    )
    expected = need(case, "expect")
    plain = LOCAL if str(expected).startswith("fallback") else expected
    yield chosen("", plain, lambda _: got)


def cluster_names(cluster: Cluster) -> list[str]:
    """The names of all nodes."""
    return [cluster.name_of(node.id) for node in cluster.view.nodes.states]


def _hybrid(options: Mapping[str, Any]) -> Hybrid:
    return Hybrid(
        spread_threshold=options.get("thr", 0.5),
        top_k_absolute=options.get("k_abs", options.get("k", 1)),
        top_k_fraction=options.get("frac", options.get("k_frac", 0.0)),
        avoid_gpu_nodes=bool(options.get("avoid_gpu", False)),
    )


def _one(case: Case, cluster: Cluster, strategy: Strategy) -> Finding:
    return chosen("", expectation(case), lambda seed: _decide(case, cluster, strategy, seed))


def _decide(
    case: Case, cluster: Cluster, strategy: Strategy, seed: int, *, reserve: bool = False
) -> str:
    request = request_of(case)
    asking = cluster.asking(case.get("options") or {})
    outcome = strategy.pick(cluster.view, request, asking, Seeded(seed))
    if reserve and isinstance(outcome, Placed) and outcome.is_available:
        cluster.view.nodes.take(outcome.node, request.resources)
    return said(outcome, cluster.name_of)


def _steps(case: Case, cluster: Cluster, strategy: Strategy, *, reserve: bool = False) -> Findings:
    for at, step in enumerate(case["steps"]):
        merged = {**case, **step}
        answer = _decide(merged, cluster, strategy, at, reserve=reserve)
        yield chosen(_step(at, case), expectation(step), _always(answer))


def _always(answer: Any) -> Callable[[int], Any]:
    return lambda _: answer


def _step(at: int, case: Case) -> str:
    return f"step {at + 1}" if "steps" in case else ""


def _each_count(nodes: Mapping[str, Any]) -> list[tuple[int | None, Mapping[str, Any]]]:
    """The nodes once for each number that `k in a..b` stands for."""
    ranged = re.compile(r"(\w+) in (\d+)\.\.(\d+)")
    found = ranged.search(str(nodes))
    if not found:
        return [(None, nodes)]

    def filled(value: Any, count: int) -> Any:
        if isinstance(value, Mapping):
            return {key: filled(one, count) for key, one in value.items()}
        return count if isinstance(value, str) and ranged.fullmatch(value) else value

    counts = range(int(found[2]), int(found[3]) + 1)
    return [(count, filled(nodes, count)) for count in counts]


def _expected_answers(expected: Any, count: int | None) -> list[Any]:
    if isinstance(expected, list):
        return _plain(expected)
    found = re.fullmatch(r"(?:exactly )?(\w+) success(?:es)? on (\w+), then none", str(expected))
    if not found:
        return [expected]
    times = int(found[1]) if found[1].isdigit() else count
    if times is None:
        raise Unusable(f"{expected!r} needs a range such as 'k in 0..2' in the nodes")
    return [found[2]] * times + ["none"]


def _plain(answers: list[Any]) -> list[Any]:
    return ["none" if _is_none(answer) else answer for answer in answers]


def _is_none(answer: Any) -> bool:
    return isinstance(answer, No) or answer in NO_NODE


AREAS: Mapping[str, Callable[[Case], Findings]] = {
    "hybrid": hybrid,
    "hybrid_topk": hybrid_topk,
    "utilization": utilization,
    "fit": fit,
    "sequence": sequence,
    "spread": spread,
    "random": random,
    "node_affinity": node_affinity,
    "label_selector": label_selector,
    "node_label": label_selector,
    "label_parse": label_parse,
    "infeasible": infeasible,
    "draining": hybrid,
    "locality": locality,
}
