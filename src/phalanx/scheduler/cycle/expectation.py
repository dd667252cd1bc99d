"""Describes in sentences how plans differ from the result that a snapshot expects."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from phalanx.scheduler.cycle.amounts import Dimensions
from phalanx.scheduler.cycle.hypernodes import HyperNodes
from phalanx.scheduler.cycle.plan import Plan
from phalanx.scheduler.cycle.specs import Expectation, Snapshot


def differences(snapshot: Snapshot, plans: Sequence[Plan]) -> Iterator[str]:
    """Yield a sentence for every difference from the expected result. The binds and evictions of
    several cycles count together.
    """
    expect = snapshot.expect
    if expect is None:
        return
    binds: dict[str, str] = {}
    evicted: set[str] = set()
    for plan in plans:
        binds.update(plan.binds)
        evicted.update(plan.evicted)
    yield from _binds(expect, binds)
    yield from _evictions(expect, evicted)
    yield from _promises(snapshot, expect, plans[-1])
    for group, phase in (expect.phases or {}).items():
        got = plans[-1].phases.get(group)
        if got != phase:
            yield f"podgroup {group} is expected to be {phase}, and is {got}"
    if expect.binds_per_lowest_hypernode_sorted is not None:
        counts = _per_domain(snapshot, binds)
        if counts != list(expect.binds_per_lowest_hypernode_sorted):
            want = list(expect.binds_per_lowest_hypernode_sorted)
            yield f"binds per closest domain are expected to be {want}, and are {counts}"
    yield from _allocated(snapshot, expect, binds, evicted)


def _binds(expect: Expectation, binds: dict[str, str]) -> Iterator[str]:
    if expect.bind_count is not None and len(binds) != expect.bind_count:
        yield f"{expect.bind_count} binds are expected, {len(binds)} made: {binds}"
    if expect.binds is None:
        return
    for task, node in expect.binds.items():
        if binds.get(task) != node:
            yield f"{task} is expected on {node}, and went to {binds.get(task, 'no node')}"
    for task, node in binds.items():
        if task not in expect.binds:
            yield f"{task} is expected to wait, and went to {node}"


def _evictions(expect: Expectation, evicted: set[str]) -> Iterator[str]:
    if expect.evict_count is not None and len(evicted) != expect.evict_count:
        yield f"{expect.evict_count} evictions are expected, {len(evicted)} made: {sorted(evicted)}"
    if expect.evicted is not None and set(expect.evicted) != evicted:
        yield f"expected evictions: {sorted(expect.evicted)}; made: {sorted(evicted)}"


def _promises(snapshot: Snapshot, expect: Expectation, plan: Plan) -> Iterator[str]:
    group_of = {t.uid: f"{t.namespace}/{t.podgroup}" for t in snapshot.tasks}
    for group, allowed in (expect.pipelined or {}).items():
        got = sorted(node for task, node in plan.pipelined.items() if group_of[task] == group)
        if (allowed and not got) or not set(got) <= set(allowed):
            yield f"expected promises for {group}: {sorted(allowed)}; made: {got}"


def _per_domain(snapshot: Snapshot, binds: dict[str, str]) -> list[int]:
    index = {n.name: i for i, n in enumerate(sorted(snapshot.nodes, key=lambda n: n.name))}
    domains = HyperNodes(snapshot.hypernodes, index)
    counts: dict[str, int] = {}
    for node in binds.values():
        name = domains.lowest_of(index[node])
        counts[name] = counts.get(name, 0) + 1
    return sorted(counts.values())


def _allocated(
    snapshot: Snapshot, expect: Expectation, binds: dict[str, str], evicted: set[str]
) -> Iterator[str]:
    """Yield a sentence for each podgroup whose number of tasks, or held amounts, after the cycle
    differ from the expected ones.
    """
    for group, want in (expect.allocated_per_podgroup or {}).items():
        holding = [
            t
            for t in snapshot.tasks
            if group in (f"{t.namespace}/{t.podgroup}", t.podgroup)
            and (t.uid in binds or (t.node and t.phase in ("Running", "Pending")))
            and t.uid not in evicted
        ]
        if isinstance(want, int) and not isinstance(want, bool):
            if len(holding) != want:
                yield f"{group} is expected to hold {want} tasks, and holds {len(holding)}"
        elif isinstance(want, dict):
            names = {k for t in holding for k, _ in t.shape.request} | set(want)
            dims = Dimensions(names)
            have = dims.empty().v
            for t in holding:
                have = have + dims.counts(t.shape.request)
            for name, x in want.items():
                got = dims.written(dims.index[name], float(have[dims.index[name]]))
                if name == "pods":
                    got = len(holding)
                if got != float(x):
                    yield f"{group} is expected to hold {x:g} of {name}, and holds {got:g}"
