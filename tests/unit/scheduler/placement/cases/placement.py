"""The runners of the tables about nodes, bundles and amounts. Each calls the product's own
functions.

`answer` returns the product's answer in the terms of the row. It is right if it equals
`row.expect`.
"""

from __future__ import annotations

import itertools
from collections import Counter
from functools import singledispatch
from typing import Any, Literal

from tests.unit.node.leasing import Node as LeasingNode

from phalanx.node.bundle_pool import BundlePool
from phalanx.scheduler.devices.instances import Allocation, NodeResources
from phalanx.scheduler.devices.quantities import SCALE, from_units
from phalanx.scheduler.devices.sets import ResourceSet
from phalanx.scheduler.placement.affinity import NodeAffinity, WithFallbacks
from phalanx.scheduler.placement.bundles.domain import pick_bundles
from phalanx.scheduler.placement.bundles.request import BundleRequest
from phalanx.scheduler.placement.bundles.room import leftover_of
from phalanx.scheduler.placement.bundles.slots import PlacedBundle, Slot, pick_bundle
from phalanx.scheduler.placement.hybrid import Hybrid
from phalanx.scheduler.placement.labels import parse_condition, parse_selector
from phalanx.scheduler.placement.locality import best_holder
from phalanx.scheduler.placement.memory_pressure import WorkerMemory, kills_by_time
from phalanx.scheduler.placement.node_table import NodeState, NodeTable
from phalanx.scheduler.placement.outcome import Placed, Rejection
from phalanx.scheduler.placement.request_class import ClusterView, Request
from phalanx.scheduler.placement.seeded import Seeded
from phalanx.scheduler.placement.spread import RandomAvailable, Spread
from phalanx.scheduler.placement.strategy import Asking, Strategy

from . import schema as s

LOCAL = "local"
"""The node that makes the choice."""

DRAWS = 24
"""How often a choice that may be random is made, each time from another seed."""

NOT_OURS: dict[type, str] = {
    s.ArithmeticRow: "amounts per instance are never added as lists: NodeResources takes and gives",
    s.GoneRow: "the memory watch ends the newest retriable task, as Ray does today",
    s.OldIdsRow: "devices are taken as they are wired, shares by best fit, as Ray does today",
    s.OldSoftRow: "what may be missing is said by labels, fallbacks and soft affinity",
}
"""Rows about rules and internals of Ray of 2020 that the product does not have, with the reasons.
docs/explanation/placement.md says what replaces them.
"""

ON_PURPOSE = {
    "ins-06": "a device and a half is refused when it is submitted, with the numbers that would do",
}
"""Rows whose expectation the product contradicts on purpose."""


@singledispatch
def answer(row: s.Row) -> Any:
    """Return the product's answer to a row."""
    raise NotImplementedError(type(row))


class Cluster:
    """The nodes of one row. Their ids are ordered as the nodes are in the file."""

    def __init__(self, nodes: s.Nodes) -> None:
        width = len(str(len(nodes)))
        self._id_of = {name: f"{at:0{width}}:{name}" for at, name in enumerate(nodes)}
        states = [_state(self._id_of[name], node) for name, node in nodes.items()]
        self.view = ClusterView(NodeTable(states))

    def id_of(self, name: str) -> str:
        """Return the id of a node by name; the name itself if there is no such node."""
        return self._id_of.get(name, name)

    def name_of(self, node_id: str) -> str:
        """Return the name of a node by id."""
        return node_id.partition(":")[2]

    def asking(self, options: s.Options) -> Asking:
        """Return the terms that a row's options describe."""
        return Asking(
            local=self.id_of(LOCAL),
            preferred=self.id_of(options.preferred),
            require_available=options.require_available,
            avoid_local=options.avoid_local,
        )

    def pick(
        self, strategy: Strategy, request: Request, asking: Asking, seed: int = 0
    ) -> Placed | Rejection:
        """Choose a node one time."""
        return strategy.pick(self.view, request, asking, Seeded(seed))

    def said(self, outcome: Placed | Rejection, expected: object = None) -> str:
        """Return the chosen node's name, or the reason why there is none. If the row accepts any
        reason, return the row's word.
        """
        if isinstance(outcome, Placed):
            return self.name_of(outcome.node)
        return expected if isinstance(expected, str) and expected in s.NOT_NOW else outcome.reason

    def drawn(
        self, strategy: Strategy, request: Request, asking: Asking, expect: Any, draws: int = DRAWS
    ) -> Any:
        """Choose nodes `draws` times; return the outcomes in the form of the row's expectation."""
        told = {
            self.said(self.pick(strategy, request, asking, seed), expect) for seed in range(draws)
        }
        if isinstance(expect, s.AnyOf):
            return expect if told <= set(expect.any_of) else s.AnyOf(any_of=sorted(told))
        if isinstance(expect, s.Seen):
            return s.Seen(only=sorted(told, key=expect.only.index), each_seen=True)
        return told.pop() if len(told) == 1 else s.AnyOf(any_of=sorted(told))


def _state(node_id: str, node: s.Node) -> NodeState:
    available = node.total if node.available is None else node.available
    assert available.keys() == node.total.keys(), "available names what total names"
    return NodeState(
        id=node_id,
        total=amounts(node.total),
        available=amounts(available),
        labels=node.labels,
        is_schedulable=not node.draining,
    )


def amounts(given: s.Amounts) -> ResourceSet:
    """Return a set of resources. Amounts may be negative, as in differences of sets."""
    return ResourceSet({name: round(amount * SCALE) for name, amount in given.items()})


def _request(given: s.Amounts, labels: dict[str, str] | None = None) -> Request:
    """Return a request as Ray compares it with a node: by the sums of amounts, not device by
    device.
    """
    return Request(resources=amounts(given), selector=parse_selector(labels), exact_devices=False)


def _hybrid(options: s.Options) -> Hybrid:
    return Hybrid(
        spread_threshold=options.thr,
        top_k_absolute=options.k_abs,
        top_k_fraction=options.frac,
        avoid_gpu_nodes=options.avoid_gpu,
    )


# ---- one node for one request -------------------------------------------------------------------


@answer.register
def _(row: s.HybridRow) -> Any:
    cluster = Cluster(row.nodes)
    asking = cluster.asking(row.options)
    return cluster.drawn(_hybrid(row.options), _request(row.request), asking, row.expect)


@answer.register
def _(row: s.TopKRow) -> Any:
    full = 10_000.0
    nodes = {
        name: s.Node(total={"CPU": full}, available={"CPU": full * (1 - score)})
        for name, score in row.scores.items()
    }
    strategy = Hybrid(
        spread_threshold=0.0, top_k_absolute=row.k, top_k_fraction=0, avoid_gpu_nodes=False
    )
    return Cluster(nodes).drawn(strategy, _request({}), Asking(), row.expect)


@answer.register
def _(row: s.UtilizationRow) -> Any:
    return _state("n", row.node).utilization()


@answer.register
def _(row: s.FitRow) -> Any:
    known = Cluster({"n": row.node}).view.of(_request(row.request))
    return s.Fits(feasible=bool(known.feasible[0]), available=bool(known.available[0]))


@answer.register
def _(row: s.SequenceRow) -> Any:
    cluster = Cluster(row.nodes)
    asking, request = cluster.asking(row.options), _request(row.request)
    told = []
    for expected in row.expect:
        outcome = cluster.pick(_hybrid(row.options), request, asking)
        if isinstance(outcome, Placed) and outcome.is_available:
            cluster.view.nodes.take(outcome.node, request.resources)
        told.append(cluster.said(outcome, expected))
    return told


@answer.register
def _(row: s.SpreadRow) -> Any:
    cluster, strategy = Cluster(row.nodes), Spread()
    told = []
    for step in row.steps:
        asking = cluster.asking(step.options)
        outcome = cluster.pick(strategy, _request(step.request), asking)
        told.append(cluster.said(outcome, step.expect))
    return told


@answer.register
def _(row: s.RandomRow) -> Any:
    asking, request = Asking(), _request(row.request)
    return Cluster(row.nodes).drawn(RandomAvailable(), request, asking, row.expect, row.repeat)


@answer.register
def _(row: s.AffinityRow) -> Any:
    cluster = Cluster(row.nodes)
    strategy = NodeAffinity(
        node=cluster.id_of(row.target),
        soft=row.options.soft,
        spill_on_unavailable=row.options.spill_on_unavailable,
        fail_on_unavailable=row.options.fail_on_unavailable,
        otherwise=_hybrid(s.Options()),
    )
    asking = cluster.asking(s.Options())
    return cluster.drawn(strategy, _request(row.request), asking, row.expect)


@answer.register
def _(row: s.LabelRow) -> Any:
    cluster = Cluster(row.nodes)
    strategy = WithFallbacks(
        fallbacks=[parse_selector(one) for one in row.fallback], strategy=_hybrid(s.Options())
    )
    asking = cluster.asking(s.Options())
    return cluster.drawn(strategy, _request(row.request, row.label_selector), asking, row.expect)


@answer.register
def _(row: s.LabelTextRow) -> Any:
    try:
        parsed = parse_condition("key", row.text)
    except ValueError:
        return "error"
    return s.Condition(op="in" if parsed.operator == "in" else "not_in", values=list(parsed.values))


@answer.register
def _(row: s.LocalityRow) -> Any:
    return best_holder(row.bytes, LOCAL, by_locality=row.strategy == "DEFAULT")


# ---- bundles ------------------------------------------------------------------------------------


def _bundles(cluster: Cluster, row: Any, **more: Any) -> Any:
    return pick_bundles(
        cluster.view,
        BundleRequest(
            bundles=tuple(amounts(one) for one in row.bundles),
            strategy=row.strategy,
            scheduler_compat="ray",
            **more,
        ),
    )


def _refused(outcome: Rejection, expect: object) -> str:
    return expect if isinstance(expect, str) and expect in s.NOT_NOW else outcome.reason


@answer.register
def _(row: s.BundleRow) -> Any:
    cluster = Cluster(row.nodes)
    outcome = _bundles(
        cluster,
        row,
        selectors=tuple(parse_selector(one) for one in row.bundle_label_selector),
        soft_target=None if row.soft_target is None else cluster.id_of(row.soft_target),
        occupied=frozenset(map(cluster.id_of, row.occupied)),
    )
    if isinstance(outcome, Rejection):
        return _refused(outcome, row.expect)
    names = [cluster.name_of(node) for node in outcome.nodes]
    return s.Placed(placed=len(names)) if isinstance(row.expect, s.Placed) else names


@answer.register
def _(row: s.BundleSequenceRow) -> Any:
    cluster = Cluster(row.nodes)
    groups: Counter[str] = Counter()
    for _ in range(row.repeat):
        outcome = _bundles(cluster, row)
        if isinstance(outcome, Rejection):
            return outcome.reason
        groups.update({cluster.name_of(node) for node in outcome.nodes})
        for node, bundle in zip(outcome.nodes, row.bundles, strict=True):
            cluster.view.nodes.take(node, amounts(bundle))
    return s.GroupsPerNode(groups_per_node=dict(sorted(groups.items())))


@answer.register
def _(row: s.BundleDomainRow) -> Any:
    outcome = _bundles(Cluster(row.nodes), row, domain_label=row.domain_label)
    if isinstance(outcome, Rejection):
        return _refused(outcome, row.expect)
    distinct = len(set(outcome.nodes))
    return s.InDomain(
        domain=outcome.domain,
        nodes=distinct,
        one_bundle_per_node=distinct == len(outcome.nodes),
    )


@answer.register
def _(row: s.ScorerRow) -> Any:
    return leftover_of(amounts(row.available), amounts(row.request))


@answer.register
def _(row: s.GroupAffinityRow) -> Any:
    shape = amounts(row.bundle_shape)
    placed = [
        PlacedBundle(
            node=node,
            total=shape,
            available=amounts(row.available[index]) if index in row.available else shape,
        )
        for index, node in sorted(row.bundles.items(), key=lambda pair: int(pair[0]))
    ]
    found = pick_bundle(placed, amounts(row.request), row.bundle_index)
    if isinstance(found, Slot) and found.is_available:
        return found.node
    return _refused(
        Rejection(reason="unavailable") if isinstance(found, Slot) else found, row.expect
    )


# ---- amounts ------------------------------------------------------------------------------------


@answer.register
def _(row: s.InstancesRow) -> Any:
    node = NodeResources({name: sum(has) for name, has in row.before.items()})
    assert _left(node, row.before) == row.before, "every device is free as a whole at first"
    held: list[Allocation] = []
    told = []
    for step in row.steps:
        taken: s.Lists | Literal["none"] | None = None
        if step.request is not None:
            allocation = node.acquire(amounts(step.request))
            if allocation is not None:
                held.append(allocation)
            taken = "none" if allocation is None else _instances(allocation, row.before)
        if step.free is not None:
            (back,) = (one for one in held if _instances(one, row.before) == step.free)
            held.remove(back)
            node.release(back)
        left = _left(node, step.left) if step.left is not None else None
        told.append(s.InstanceStep(request=step.request, free=step.free, expect=taken, left=left))
    return told


def _instances(allocation: Allocation, names: s.Lists) -> s.Lists:
    """Return how much is taken from each instance of each requested resource."""
    found: s.Lists = {}
    for name, units in allocation.resources.items():
        devices = dict(allocation.instances.get(name, ()))
        found[name] = (
            [from_units(devices.get(index, 0)) for index in range(len(names[name]))]
            if name in allocation.instances
            else [from_units(units)]
        )
    return found


def _left(node: NodeResources, names: s.Lists) -> s.Lists:
    devices, divisible = node.devices_left(), node.available()
    return {
        name: [from_units(units) for units in devices[name]]
        if name in devices
        else [divisible[name]]
        for name in names
    }


@answer.register
def _(row: s.GroupInstancesRow) -> Any:
    pools: dict[str, BundlePool] = {}
    for name, has in row.before.items():
        kind, _, index = name.rpartition("_")
        if index != "wild":
            node = NodeResources({kind: sum(has)})
            reservation = node.acquire(amounts({kind: sum(has)}))
            assert reservation is not None and index not in pools, "one resource a bundle"
            pools[index] = BundlePool(reservation)
    told = []
    for step in row.steps:
        named = {name.rpartition("_")[::2]: amount for name, amount in step.request.items()}
        (kind,) = {kind for kind, _ in named}
        (amount,) = set(named.values())
        indexes = sorted(index for _, index in named if index != "wild") or sorted(pools)
        wanted = amounts({kind: amount})
        fitting = [index for index in indexes if pools[index].can_now(wanted)]
        if fitting:
            pools[fitting[0]].acquire(wanted)
        left = {f"{kind}_{index}": [pool._inner.available()[kind]] for index, pool in pools.items()}
        left[f"{kind}_wild"] = [sum(has for (has,) in left.values())]
        asked = None if step.left is None else {name: left[name] for name in step.left}
        told.append(
            s.GroupStep(request=step.request, expect="ok" if fitting else "none", left=asked)
        )
    return told


@answer.register
def _(row: s.CreateRow) -> Any:
    node = NodeResources(row.resources)
    return _left(node, {name: [] for name in row.resources})


@answer.register
def _(row: s.SetRow) -> Any:
    left, right = amounts(row.left), amounts(row.right)
    if row.op == "<=":
        return left <= right
    if row.op == "==":
        return left == right
    return (left + right if row.op == "+" else left - right).to_mapping()


@answer.register
def _(row: s.StoreRow) -> Any:
    told = []
    for step in row.steps:
        node = NodeResources({"object_store_memory": row.total_MiB})
        node.force_acquire(amounts({"object_store_memory": step.used_MiB}))
        free = node.available()["object_store_memory"]
        told.append(s.StoreStep(used_MiB=step.used_MiB, available_MiB=free))
    return told


# ---- one node at work ---------------------------------------------------------------------------


@answer.register
def _(row: s.BlockedRow) -> Any:
    places = {"": NodeResources(row.node), "group": NodeResources(row.group)}
    cpus: dict[str, tuple[NodeResources, Allocation]] = {}
    for place, running in (("", row.running), ("group", row.running_in_group)):
        for name, asked in running.items():
            held = places[place].acquire(amounts({"CPU": asked.get("CPU", 0.0)}))
            rest = {k: v for k, v in asked.items() if k != "CPU"}
            assert held is not None and places[place].acquire(amounts(rest)) is not None
            cpus[name] = (places[place], held)
    told = []
    for step in row.steps:
        for name in step.blocks:
            node, held = cpus[name]
            node.release(held)
        for name in step.unblocks:
            node, held = cpus[name]
            node.force_acquire(held.resources)
        free, inside = places[""].available(), places["group"].available()
        told.append(
            s.BlockedStep(
                blocks=step.blocks,
                unblocks=step.unblocks,
                available={name: free[name] for name in step.available},
                in_group={name: inside[name] for name in step.in_group},
            )
        )
    return told


@answer.register
def _(row: s.DispatchRow) -> Any:
    """All requests of the row are queued before any resources become free. Another holder has all
    remaining resources, and returns them one by one.
    """
    (cpu,) = (row.node["CPU"],)
    node = LeasingNode(**row.node)
    each = row.request["CPU"]
    for name, count in row.running.items():
        node.want(name, count, resources=row.request)
    others = int((cpu - each * sum(row.running.values())) // each)
    node.want("z", others, resources=row.request)
    holders = [x.number for x in node.machine.leases.values() if x.demand.owner[:1] == b"z"]
    for name, count in Counter(row.queue).items():
        node.want(name, count + row.running.get(name, 0), resources=row.request, seen=0)
    node.log.clear()
    for number in holders:
        node.machine.returned(number, True, node.now)
    return s.Granted(granted=[line.split()[1] for line in node.log if line.startswith("grant")])


@answer.register
def _(row: s.InfeasibleRow) -> Any:
    (local,) = row.nodes.values()
    node = LeasingNode(ready=False, **local.total)
    node.want("a", resources=row.request)
    return s.Waits(queued=bool(node.machine.waiting), worker_started=bool(node.started))


@answer.register
def _(row: s.ByTimeRow) -> Any:
    kills = kills_by_time(
        [
            WorkerMemory(
                name=worker.name,
                memory_bytes=worker.used,
                started_s=worker.started,
                is_retriable=worker.retriable,
                is_idle=worker.idle,
            )
            for worker in row.workers
        ],
        used_bytes=row.used,
        threshold_bytes=row.threshold,
        buffer_bytes=row.buffer,
        idle_bytes=row.idle_bytes,
    )
    return s.KilledByTime(
        kill_order=[kill.worker for kill in kills], retry={k.worker: k.retry for k in kills}
    )


def expected(row: Any) -> Any:
    """Return the row's expectation in the form that `answer` returns."""
    if isinstance(row, s.SpreadRow):
        return [step.expect for step in row.steps]
    if isinstance(row, s.InstancesRow | s.GroupInstancesRow | s.StoreRow | s.BlockedRow):
        return row.steps
    if isinstance(row, s.LabelTextRow) and isinstance(row.expect, s.Condition):
        return s.Condition(op=row.expect.op, values=sorted(row.expect.values))
    return row.expect


def numbered(rows: list[Any]) -> list[tuple[str, Any]]:
    """Return (id, row) of all rows, with unique ids."""
    seen: Counter[str] = Counter()
    ids = []
    for row in rows:
        seen[row.id] += 1
        ids.append(row.id if seen[row.id] == 1 else f"{row.id}#{seen[row.id]}")
    assert len(set(ids)) == len(ids)
    return list(itertools.zip_longest(ids, rows))
