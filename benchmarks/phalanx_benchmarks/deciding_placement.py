"""The speed of placement: strategies and bundles on clusters of several sizes, and the rule for
devices.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import get_args

from phalanx.scheduler.devices.machines import machine
from phalanx.scheduler.devices.pack import PackTables
from phalanx.scheduler.devices.sets import ResourceSet
from phalanx.scheduler.placement.affinity import NodeAffinity, WithFallbacks
from phalanx.scheduler.placement.bundles.domain import pick_bundles
from phalanx.scheduler.placement.bundles.request import BundleRequest, BundleStrategy
from phalanx.scheduler.placement.hybrid import Hybrid
from phalanx.scheduler.placement.labels import parse_selector
from phalanx.scheduler.placement.node_table import NodeState, NodeTable
from phalanx.scheduler.placement.request_class import ClusterView, Request
from phalanx.scheduler.placement.seeded import Seeded
from phalanx.scheduler.placement.selector.strategy import Selector
from phalanx.scheduler.placement.spread import RandomAvailable, Spread
from phalanx.scheduler.placement.strategy import Asking, Strategy
from phalanx.scheduler.placement.two_pass import TwoPassRandom
from phalanx.scheduler.placement.waiting_time import LeastWaiting

Clock = Callable[[], float]
"""A function that returns the seconds of a monotonic clock."""

Row = dict[str, str | float]
"""One line of the table: the name of the measurement, and the figures by column."""

SIZES = (10, 100, 1_000, 10_000)

_DECISIONS = 300
_CHANGED = 5
"""The number of nodes whose available amounts change before each decision."""

_MACHINES = ("dgx1v", "pcie8_2socket", "dgx2", "k80x16")


def run(clock: Clock) -> list[Row]:
    """Return decisions per second by strategy and number of nodes, then the times of the device
    rule.

    Each decision is for a known class of requests, after `_CHANGED` nodes have reported again, and
    includes the time for these reports. Figures are medians.
    """
    rows: list[Row] = []
    for name, strategy in _strategies().items():
        rates = [1 / _median_s(clock, _decisions(strategy, size)) for size in SIZES]
        rows.append(_rates(name, rates))
    for kind in get_args(BundleStrategy):
        rates = [1 / _median_s(clock, _groups(kind, size)) for size in SIZES]
        rows.append(_rates(f"{kind} of 4 bundles", rates))
    for name in _MACHINES:
        rows.extend(_device_rows(clock, name))
    return rows


def _rates(name: str, rates: Sequence[float]) -> Row:
    row: Row = {"choice": name}
    row.update(
        (f"{size:,} nodes, per s", round(rate)) for size, rate in zip(SIZES, rates, strict=True)
    )
    return row


def _groups(kind: BundleStrategy, size: int) -> list[Callable[[], object]]:
    view = ClusterView(NodeTable(_node(at, Seeded(at)) for at in range(size)))
    bundle = ResourceSet.from_mapping({"CPU": 2, "memory": 1e9})
    asked = BundleRequest(bundles=(bundle,) * 4, strategy=kind)
    pick_bundles(view, asked)
    return [partial(pick_bundles, view, asked)] * 20


def _strategies() -> dict[str, Strategy]:
    return {
        "DEFAULT": Hybrid(),
        "SPREAD": Spread(),
        "RANDOM": RandomAvailable(),
        "two-pass random": TwoPassRandom(),
        "node affinity": NodeAffinity(node="n00003", soft=True),
        "label fallbacks": WithFallbacks(fallbacks=[parse_selector({"zone": "a"})]),
        "least waiting time": LeastWaiting(),
        "selector": Selector(),
    }


def _decisions(strategy: Strategy, size: int) -> list[Callable[[], object]]:
    """Return functions that each make a decision after a few nodes have reported again."""
    rng = Seeded(size)
    view = ClusterView(NodeTable(_node(at, rng) for at in range(size)))
    request = Request(resources=ResourceSet.from_mapping({"CPU": 4, "memory": 1000}))
    asking = Asking(
        local="n00001",
        preferred="n00001",
        argument_bytes=10**7,
        held_bytes={"n00002": 10**6},
    )
    strategy.pick(view, request, asking, rng)

    def one(reports: list[NodeState]) -> Callable[[], object]:
        def decide() -> object:
            for report in reports:
                view.nodes.put(report)
            return strategy.pick(view, request, asking, rng)

        return decide

    return [
        one([_node(rng.randrange(size), rng) for _ in range(_CHANGED)]) for _ in range(_DECISIONS)
    ]


def _node(at: int, rng: Seeded) -> NodeState:
    """Return a node of 64 CPUs, some of them in use at random; every fourth node has eight GPUs."""
    total = {"CPU": 64, "memory": 2**38, "GPU": 8 if at % 4 == 0 else 0}
    free = {name: rng.randrange(amount + 1) for name, amount in total.items()}
    return NodeState(
        id=f"n{at:05}",
        total=ResourceSet.from_mapping(total),
        available=ResourceSet.from_mapping(free),
        labels={"zone": "ab"[at % 2]},
    )


def _device_rows(clock: Clock, name: str) -> Iterator[Row]:
    """Yield rows with the times of the first picks from each set of free devices, without a
    cache.
    """
    wiring = machine(name)
    count = wiring.device_count
    tables = PackTables(wiring.affinity, wiring.weights)
    start = clock()
    for size in range(1, count + 1):
        tables.prepare(size)
    yield {"choice": f"{name}: tables, once", "median, µs": round(1e6 * (clock() - start))}
    rng = Seeded(count)
    free = dict.fromkeys([(1 << count) - 1, *(rng.randrange(1 << count) | 1 for _ in range(60))])
    for size in (1, 2, count // 2):
        times = _times_s(clock, [partial(tables.pick, one, size) for one in free])
        yield {
            "choice": f"{name}: {size} of {count} devices",
            "median, µs": round(1e6 * times[len(times) // 2], 1),
            "longest, µs": round(1e6 * times[-1], 1),
        }


def _median_s(clock: Clock, calls: Sequence[Callable[[], object]]) -> float:
    times = _times_s(clock, calls)
    return times[len(times) // 2]


def _times_s(clock: Clock, calls: Sequence[Callable[[], object]]) -> list[float]:
    """Return the seconds that each call took, in ascending order."""
    times = []
    for call in calls:
        start = clock()
        call()
        times.append(clock() - start)
    return sorted(times)
