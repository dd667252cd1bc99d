"""A few lines of a file may describe huge amounts. A cycle over them needs little time and
memory.
"""

from __future__ import annotations

import tracemalloc
from typing import Any

import pytest
from tests.unit.scheduler.cycle.lines import cases
from tests.unit.scheduler.cycle.test_tables import snapshot_of

from phalanx.scheduler.cycle.replay import replay
from phalanx.scheduler.forecast.inquiry import explain_snapshot

MAX_BYTES = 16 * 2**20

TABLE = """
use allocate | gang | predicates, fragmentation
case a node with a billion GPUs
node a 8c 8G 1000000000nvidia.com/gpu
queue q
gang g q min=1
task t g 1c 1G 1000000nvidia.com/gpu
task u g 1c 1G 0.5nvidia.com/gpu
bound 1

use allocate | gang | predicates, deviceshare
case a node with a billion shared cards
node a 8c 8G 1000000000volcano.sh/gpu-number 1000000000volcano.sh/gpu-memory
queue q
gang g q min=1
task t g 1c 1G 1volcano.sh/gpu-number
bound 1

use allocate | gang | predicates, deviceshare
case a node with a billion virtual cards
node a 8c 8G 1000000000volcano.sh/vgpu-number 1000000000volcano.sh/vgpu-memory
queue q
gang g q min=1
task t g 1c 1G 1volcano.sh/vgpu-number
bound 1

use allocate | gang | predicates, numa-aware
case a node with forty NUMA nodes, none of which has enough
node a 80c 8G {numa: [N]}
queue q
gang g q min=1
task t g 41c 1G {annotations: {volcano.sh/numa-topology-policy: single-numa-node}}
bound 0

use allocate | gang | predicates, network-topology-aware
case a network domain of tier a billion
node a 8c 8G
node b 8c 8G
net n 1 a
net m 1000000000 n
queue q
gang g q min=1
task t g 1c 1G
bound 1

use reclaim | capacity(on=[reclaimable, preemptive, queueOrder, hierarchy, allocatable]; ancestorReclaimLevel=1e12), gang(on=[jobStarving])
case a reclaimer that asks a trillion ancestors
node a 2c 2G
queue root
queue p parent=root des=1c,1G
queue o parent=root des=1c,1G
queue p1 parent=p
queue o1 parent=o
gang h o1 phase=Running
gang g p1 min=1
task x h 1c 1G @a x2
task t g 1c 1G
evicted 1

use allocate | gang, priority | predicates, proportion, nodeorder, binpack
case room for a quadrillion tasks, and a gang of as many
node a 1000000000000c 1G pods=1000000000000000
queue q
gang g q min=2
task t g 1m x2
gang h q min=1000000000000000
task u h 1m
bound 2

use allocate, preempt, consolidate(maxMoves=1e12) | priority | gang | predicates, reservation
case work that ends on a node with room for a quadrillion
node a 2c 2G pods=1000000000000000
queue q
gang r q min=1 phase=Running {run_time_s: 1000000000000, started: 0}
task r0 r 2c 1m @a
gang g q min=2 {run_time_s: 1000000000000}
task t g 1c x2
bound 0
""".replace("numa: [N]", f"numa: {[{'cpu': 2}] * 40}")  # fmt: skip  # noqa: E501


@pytest.mark.parametrize("case", [pytest.param(c, id=c["name"]) for c in cases(TABLE)])
def test_huge_amounts_need_little_memory(case: dict[str, Any]) -> None:
    snapshot = snapshot_of(case)
    tracemalloc.start()
    try:
        outcome = replay(snapshot, cycles=2)
        explain_snapshot(snapshot)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert outcome.differences == ()
    assert peak < MAX_BYTES
