"""The options of a run, drawn from its seed: sizes, limits, kinds of work, and possible faults.
This is swarm testing: each seed leaves out most of the possible faults, so that the remaining
faults can occur together. Source: Groce et al., "Swarm Testing", ISSTA 2012.
"""

from __future__ import annotations

import math
import random
from typing import Any, TypeVar

import msgspec

from phalanx.head.nodes.liveness import MIN_SILENCE_S, HealthLimits
from phalanx.node.options import SpillOptions
from phalanx.scheduler.placement.placement_policy import PlacementPolicy
from phalanx_research.chaos.kernel import Kernel

_Number = TypeVar("_Number", int, float)

FAULTS = (
    "crash",
    "restart",
    "partition",
    "cut",
    "freeze",
    "slow",
    "head",
    "worker",
    "driver",
    "lose",
    "twice",
    "late",
    "drain",
    "sever",
    "erase",
    "full",
    "torn",
    "dials",
    "clock",
    "device",
    "pause",
    "step",
    "process",
)
PROCESS = "process"
"""The fault in which a node's process ends, and the commands on its machine go on."""

LATER_FAULTS = {
    "drain": 0.2, "sever": 0.2, "erase": 0.4, "full": 0.2, "torn": 0.2, "dials": 0.2, "clock": 0.3,
    "device": 0.25, "pause": 0.3, "step": 0.3,
    "process": 0.3,
}  # fmt: skip
"""The probability that a seed has each fault. Each fault has its own random generator, so that a
new fault does not change the rest of a seed.
"""


class NetworkOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of the network. Times are in seconds."""

    latency_s: tuple[float, float]
    """The smallest and the largest latency between two machines."""
    jitter_s: float
    """The mean of an exponentially distributed time that is added to the latency."""
    notice_s: float
    """The longest time until a process notices a broken connection."""
    give_up_s: float
    """The longest time for which a connection over which nothing gets through stays open."""


class ObjectOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How often all drivers together use objects in each of these ways."""

    chains: int
    """The number of tasks that take results of other tasks, most of them large."""
    streams: int
    cancels: int
    limits: int
    """The number of tasks with a time limit."""
    parents: int
    """The number of tasks that submit other tasks."""
    lends: int
    """The number of actors that keep references."""
    store_objects: int
    """The number of large objects for which a node's memory has room."""


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """All options of one run. Times are in seconds."""

    nodes: tuple[dict[str, float], ...]
    """The resources of each node."""
    network: NetworkOptions
    limits: HealthLimits
    spilling: SpillOptions
    patience_s: float
    """Seconds without a head after which an idle node ends itself."""
    tick_s: float
    head_tick_s: float
    write_s: tuple[float, float]
    """The shortest and the longest time of a write of the head's journal."""
    start_s: tuple[float, float]
    """The shortest and the longest time until a worker process has started."""
    skew_s: float
    drift: float
    """The largest relative error in the speed of a clock."""
    chaos_s: float
    """The seconds of the run in which faults happen."""
    quiet_s: float
    """Seconds without any event after all work has ended, before the head dies once more; 0: the
    head does not die.
    """
    faults: tuple[str, ...]
    fault_every_s: float
    drivers: int
    tasks: int
    """The number of times that a driver submits tasks. Each time it submits one, five or twelve."""
    actors: int
    groups: int
    gangs: int
    jobs: int
    """The number of jobs of all drivers together."""
    sweeps: int
    """The number of arrays of short commands that each driver submits."""
    has_parts: bool
    """Whether the store may confirm the changes of one write in several parts."""
    has_others: bool
    """Whether some jobs depend on others, and some are arrays."""
    has_times: bool
    """Whether some jobs have time limits, start later, or are held and changed."""
    queues: tuple[dict[str, float], ...]
    """The weight and the CPU limit of each queue, in addition to the default queue."""
    quotas: tuple[dict[str, Any], ...]
    """Additional fields of each queue at its creation."""
    queue_changes: int
    """The number of times that a driver changes a queue's weight."""
    has_tasks_in_queues: bool
    """Whether ordinary tasks are also charged to queues."""
    task_s: float
    """The mean run time of a task."""
    objects: ObjectOptions


def draw(kernel: Kernel) -> Options:
    """Draw the options of one seed. Options that were added later have their own random generators,
    so that they do not change the earlier options of a seed.
    """
    rng, later = kernel.rng("options"), kernel.rng("later options")

    def pick(*choices: _Number) -> _Number:
        return rng.choice(choices)

    chosen = [fault for fault in FAULTS if fault not in LATER_FAULTS and rng.random() < 0.4]
    for fault, chance in LATER_FAULTS.items():
        if kernel.rng(f"fault {fault}").random() < chance:
            chosen.append(fault)
    period_s = pick(0.3, 0.6, 1.0)
    tasks = pick(0, 10, 30, 60)
    drawn = Options(
        nodes=tuple(_node(rng) for _ in range(pick(1, 2, 3, 4, 5, 6))),
        network=NetworkOptions(
            latency_s=rng.choice(((0.0005, 0.002), (0.001, 0.03), (0.01, 0.2))),
            jitter_s=pick(0.0, 0.001, 0.05),
            notice_s=pick(0.001, 0.1, 1.0),
            give_up_s=pick(0.5, 4.0, 20.0),
        ),
        limits=HealthLimits(
            period_s=period_s,
            misses=max(pick(3, 5, 8), math.ceil(MIN_SILENCE_S / period_s)),
            joining_s=pick(1.0, 5.0),
            reconnect_s=pick(0.5, 2.0),
            restored_s=pick(2.0, 10.0),
        ),
        spilling=SpillOptions(
            placement=PlacementPolicy(policy=rng.choice(("default", "least-waiting"))),
            threshold=pick(0, 0, 2),
        ),
        patience_s=60.0,
        tick_s=pick(0.1, 0.1, 0.25),
        head_tick_s=pick(0.1, 0.2),
        write_s=rng.choice(((0.0, 0.0), (0.0005, 0.005), (0.01, 0.3))),
        start_s=rng.choice(((0.01, 0.05), (0.1, 0.8))),
        skew_s=pick(0.0, 5.0, 1e6),
        drift=pick(0.0, 0.0, 0.02),
        chaos_s=pick(6.0, 12.0, 18.0),
        quiet_s=kernel.rng("quiet").choice((*(0.0,) * 7, 90.0, 200.0, 400.0)),
        faults=tuple(chosen),
        fault_every_s=pick(0.5, 1.5, 4.0),
        drivers=pick(1, 1, 2, 3),
        tasks=tasks,
        actors=pick(0, 2, 5),
        groups=pick(0, 4, 10),
        gangs=pick(0, 0, 5, 15),
        queues=tuple(_queue(rng) for _ in range(pick(0, 1, 2))),
        jobs=later.choice((0, 0, 4, 12)),
        sweeps=kernel.rng("sweeps").choice((0, 0, 1, 3)),
        has_parts=kernel.rng("parts of deliveries").random() < 0.4,
        has_others=kernel.rng("others of jobs").random() < 0.5,
        has_times=kernel.rng("times of jobs").random() < 0.4,
        quotas=(),
        queue_changes=later.choice((0, 0, 3)),
        has_tasks_in_queues=later.random() < 0.5,
        task_s=pick(0.02, 0.2, 1.0) if tasks < 30 else pick(0.02, 0.2),
        objects=_objects(kernel),
    )
    return msgspec.structs.replace(drawn, quotas=tuple(_quota(later) for _ in drawn.queues))


def _objects(kernel: Kernel) -> ObjectOptions:
    rng = kernel.rng("object options")
    return ObjectOptions(
        chains=rng.choice((0, 20, 40, 60)),
        streams=rng.choice((0, 0, 5, 15)),
        cancels=rng.choice((0, 0, 5, 15)),
        limits=rng.choice((0, 0, 5)),
        parents=rng.choice((0, 0, 3, 10)),
        lends=rng.choice((0, 0, 2, 5)),
        store_objects=kernel.rng("store options").choice((1_000_000, 1_000_000, 4, 20)),
    )


def _queue(rng: random.Random) -> dict[str, float]:
    queue = {"weight": float(rng.choice((1, 2, 5)))}
    if rng.random() < 0.3:
        queue["CPU"] = float(rng.choice((2, 4, 8)))
    return queue


def _quota(rng: random.Random) -> dict[str, Any]:
    quota: dict[str, Any] = {}
    if rng.random() < 0.4:
        quota["deserved"] = {"CPU": float(rng.choice((1, 2)))}
        if rng.random() < 0.5:
            quota["guarantee"] = {"CPU": 1.0}
    if rng.random() < 0.15:
        quota["reclaimable"] = False
    return quota


def _node(rng: random.Random) -> dict[str, float]:
    """Draw the resources of a node. Nodes are small, so that little work is enough for
    contention.
    """
    resources = {"CPU": float(rng.choice((1, 2, 4)))}
    if rng.random() < 0.5:
        resources["GPU"] = float(rng.choice((1, 2, 4)))
    if rng.random() < 0.3:
        resources["disk"] = float(rng.choice((1, 3)))
    return resources
