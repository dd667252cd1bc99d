"""The time that a cycle takes on clusters of several sizes. `run(clock)` returns a row for each
measurement. The caller passes `clock`, in seconds. Shapes, sizes and loads are computed, and not
random.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import groupby
from typing import Any

import msgspec

from phalanx.scheduler.cycle.aftermath import after
from phalanx.scheduler.cycle.config import CHART_YAML, Configuration, parse_volcano
from phalanx.scheduler.cycle.cycle import run_cycle
from phalanx.scheduler.cycle.jobs import PENDING
from phalanx.scheduler.cycle.kept import KeptCluster, Standing
from phalanx.scheduler.cycle.plan import Plan
from phalanx.scheduler.cycle.registry import known_plugins
from phalanx.scheduler.cycle.specs import (
    NodeSpec,
    PodGroupSpec,
    QueueSpec,
    Shape,
    Snapshot,
    TaskSpec,
)

Clock = Callable[[], float]
Row = dict[str, Any]

SIZES = (100, 1_000, 10_000)
QUEUES, SHAPES, LARGEST = 50, 200, 512
PER_NODE = 10
"""Pending tasks per node in the full cycle."""

_EVICTING = """\
actions: "{action}"
tiers:
- plugins:
  - name: priority
  - name: conformance
- plugins:
  - name: drf
    enablePreemptable: false
  - name: predicates
  - name: proportion
  - name: nodeorder
  - name: binpack
"""


def run(clock: Clock, sizes: Sequence[int] = SIZES) -> list[Row]:
    """Return five rows for each size: a full cycle, a steady cycle, a steady cycle on columns that
    are kept from the cycle before (as in a head), a cycle that preempts, and a cycle that reclaims.
    """
    rows = []
    for nodes in sizes:
        full = filling(nodes)
        row, plan = _measure(clock, "full cycle", full)
        rows.append(row)
        now = steady(full, plan)
        rows.append(_measure(clock, "steady cycle", now)[0])
        rows.append(_measure_kept(clock, "steady cycle, kept", after(full, plan), now))
        for action in ("preempt", "reclaim"):
            victims = min(1_000, nodes)
            rows.append(_measure(clock, f"{action} {victims}", evicting(nodes, action, victims))[0])
    return rows


def _measure(clock: Clock, name: str, snapshot: Snapshot) -> tuple[Row, Plan]:
    start = clock()
    plan = run_cycle(snapshot, clock=clock, times_hooks=False)  # reading the clock takes time
    return _row(name, snapshot, plan, clock() - start), plan


def _row(name: str, snapshot: Snapshot, plan: Plan, took: float) -> Row:
    waiting = sum(not t.node for t in snapshot.tasks)
    return {
        "measure": name,
        "nodes": len(snapshot.nodes),
        "pending": waiting,
        "seconds": took,
        "placed": len(plan.binds),
        "promised": len(plan.pipelined),
        "evicted": len(plan.evictions),
        "placements_per_second": (len(plan.binds) + len(plan.pipelined)) / took if took else 0.0,
        "parts": {f"{t.part} {t.name}": t.seconds for t in plan.timings},
    }


def _measure_kept(clock: Clock, name: str, before: Snapshot, now: Snapshot) -> Row:
    """Measure a cycle on kept columns. Before the cycle, everything that `now` has in addition to
    `before` is added to the columns. After the cycle, its promises are withdrawn.
    """
    kept = KeptCluster(before)
    kept.take_back(run_cycle(before, cluster=kept, explains=False))
    fresh = now.tasks[len(before.tasks) :]
    start = clock()
    for group in now.podgroups[len(before.podgroups) :]:
        kept.put_group(group)
    kept.add_rows(fresh)
    for uid, tasks in groupby(fresh, key=lambda t: f"{t.namespace}/{t.podgroup}"):
        kept.stand(uid, [Standing(t.uid, PENDING) for t in tasks])
    plan = run_cycle(now, clock=clock, times_hooks=False, cluster=kept, explains=False)
    kept.take_back(plan)
    return _row(name, now, plan, clock() - start)


def settings() -> Configuration:
    """Return the configuration that Volcano's chart installs, with the plugin binpack."""
    return parse_volcano(CHART_YAML, known_plugins())


def cluster(nodes: int) -> tuple[NodeSpec, ...]:
    """Return nodes of four kinds, in mixed order."""
    kinds = (
        (("cpu", 64.0), ("memory", 256e9), ("pods", 110.0)),
        (("cpu", 96.0), ("memory", 768e9), ("pods", 110.0), ("nvidia.com/gpu", 8.0)),
        (("cpu", 32.0), ("memory", 128e9), ("pods", 110.0)),
        (("cpu", 128.0), ("memory", 512e9), ("pods", 110.0), ("nvidia.com/gpu", 4.0)),
    )
    return tuple(
        NodeSpec(
            name=f"node-{i:05d}",
            capacity=kinds[i % 4],
            labels=(("disk", "ssd" if i % 3 else "hdd"), ("zone", f"z{i % 5}")),
        )
        for i in range(nodes)
    )


def shapes(count: int = SHAPES) -> list[Shape]:
    """Return requests of many sizes; some need a device, some a zone or a disk."""
    out = []
    for i in range(count):
        request = [("cpu", 0.5 + (i * 7 % 16) / 2), ("memory", (1 + i * 5 % 24) * 1e9 + i * 1e6)]
        if i % 4 == 1:
            request.append(("nvidia.com/gpu", float(1 + i % 2)))
        selector: tuple[tuple[str, str], ...] = ()
        if i % 5 == 0:
            selector = (("zone", f"z{i % 25 // 5}"),)
        elif i % 7 == 0:
            selector = (("disk", "ssd"),)
        out.append(Shape(request=tuple(request), namespace="bench", role="w", selector=selector))
    return out


def gang_sizes(total: int) -> list[int]:
    """Return gang sizes from 1 to 512 that sum to `total`. Small sizes are more frequent."""
    out: list[int] = []
    left, step = total, 0
    while left > 0:
        step += 1
        size = min(left, 1 << (step * 5 % 10), LARGEST)
        size = min(left, size + step * 37 % size)
        out.append(min(size, LARGEST))
        left -= out[-1]
    return out


def filling(nodes: int, per_node: int = PER_NODE) -> Snapshot:
    """Return an empty cluster with waiting tasks: ten for each node, in gangs of all sizes, in
    fifty queues.
    """
    kinds = shapes()
    groups, tasks = _gangs(gang_sizes(nodes * per_node), kinds, "g")
    return Snapshot(
        config=settings(), nodes=cluster(nodes), queues=_queues(), podgroups=groups, tasks=tasks
    )


def steady(snapshot: Snapshot, plan: Plan, fresh: int = 1_000) -> Snapshot:
    """Return the same cluster one cycle later, with `fresh` new tasks."""
    now = after(snapshot, plan)
    kinds = sorted({t.shape for t in snapshot.tasks[:2000]}, key=repr)[:20]
    groups, tasks = _gangs(gang_sizes(fresh), kinds, "n")
    return msgspec.structs.replace(now, podgroups=now.podgroups + groups, tasks=now.tasks + tasks)


def _queues() -> tuple[QueueSpec, ...]:
    return tuple(QueueSpec(name=f"q{i:02d}", weight=1 + i % 4) for i in range(QUEUES))


def _gangs(
    sizes: Sequence[int], kinds: Sequence[Shape], prefix: str
) -> tuple[tuple[PodGroupSpec, ...], tuple[TaskSpec, ...]]:
    groups, tasks = [], []
    for i, size in enumerate(sizes):
        name = f"{prefix}{i:05d}"
        groups.append(
            PodGroupSpec(
                name=name,
                namespace="bench",
                queue=f"q{i * 7 % QUEUES:02d}",
                min_member=size,
                priority=i % 3,
                phase="Inqueue",
            )
        )
        shape = kinds[i * 11 % len(kinds)]
        for k in range(size):
            tasks.append(TaskSpec(name=f"{name}-w-{k}", podgroup=name, shape=shape))
    return tuple(groups), tuple(tasks)


def evicting(nodes: int, action: str, victims: int) -> Snapshot:
    """Return a full cluster, in which each task fills a node, and waiting gangs that need `victims`
    evictions.

    With preempt, the victims are in the same queue and have lower priority. With reclaim, they are
    in a queue that exceeds its share.
    """
    capacity = (("cpu", 8.0), ("memory", 32e9), ("pods", 16.0))
    shape = Shape(request=(("cpu", 8.0), ("memory", 32e9)), namespace="bench")
    machines = tuple(NodeSpec(name=f"node-{i:05d}", capacity=capacity) for i in range(nodes))
    gangs = 10
    each = victims // gangs
    mine = "q0" if action == "preempt" else "q1"
    groups = [PodGroupSpec(name="low", namespace="bench", queue="q0", phase="Running")]
    tasks = [
        TaskSpec(
            name=f"low-{i}",
            podgroup="low",
            shape=shape,
            node=machines[i].name,
            phase="Running",
        )
        for i in range(nodes)
    ]
    for g in range(gangs):
        name = f"high{g}"
        groups.append(
            PodGroupSpec(
                name=name,
                namespace="bench",
                queue=mine,
                min_member=each,
                priority=10,
                phase="Inqueue",
            )
        )
        tasks += [
            TaskSpec(name=f"{name}-w-{k}", podgroup=name, shape=shape, priority=10)
            for k in range(each)
        ]
    return Snapshot(
        config=parse_volcano(_EVICTING.format(action=action), known_plugins()),
        nodes=machines,
        queues=(QueueSpec(name="q0"), QueueSpec(name="q1")),
        podgroups=tuple(groups),
        tasks=tuple(tasks),
    )
