"""Each node policy as a plugin of the live session: it chooses the same nodes as in the
experiment.
"""

from __future__ import annotations

import numpy as np
import pytest

from phalanx.scheduler.cycle.config import parse_volcano
from phalanx.scheduler.cycle.cycle import run_cycle
from phalanx.scheduler.cycle.registry import known_plugins
from phalanx.scheduler.cycle.specs import (
    Affinity,
    Match,
    NodeSpec,
    PodGroupSpec,
    QueueSpec,
    Snapshot,
    TaskSpec,
)
from phalanx.scheduler.cycle.specs import Shape as Request
from phalanx.scheduler.placement.fragmentation.catalogue import POLICIES, maker_of
from phalanx.scheduler.placement.fragmentation.nodes import GpuNodes
from phalanx.scheduler.placement.fragmentation.placer import Placer
from phalanx.scheduler.placement.fragmentation.shape import Shape

GPU = "nvidia.com/gpu"
MIB = 2.0**20
NODES = (
    (32_000, 2, "T4"),
    (64_000, 4, "T4"),
    (96_000, 8, "G2"),
    (96_000, 8, "G2"),
    (16_000, 2, "P100"),
)
PODS = [
    Shape(cpu, 1024, gpus, 1000 if gpus else 0, models)
    for cpu, gpus, models in (
        (8000, 2, ()), (4000, 1, ()), (12_000, 1, ("G2",)), (32_000, 4, ()), (2000, 0, ()),
        (16_000, 2, ("P100", "T4")), (3000, 1, ()), (8000, 1, ("T4",)), (30_000, 8, ()),
        (4000, 1, ()), (9000, 2, ()), (1000, 0, ()), (3000, 1, ("P100",)), (4000, 4, ()),
    )
]  # fmt: skip
CONFIG = """
actions: "allocate"
tiers:
- plugins:
  - name: fifo
  - name: gang
  - name: predicates
  - name: fragmentation
    arguments: {fragmentation.policy: POLICY}
"""


def decided(policy: str) -> dict[str, str]:
    """Return the node of each pod as the session decides. Each pod is a gang of one, in order of
    submission.
    """
    snapshot = Snapshot(
        config=parse_volcano(CONFIG.replace("POLICY", policy), known_plugins()),
        queues=(QueueSpec(name="q"),),
        nodes=tuple(
            NodeSpec(
                name=f"n{i}",
                capacity=(("cpu", cpu / 1000), ("memory", 2.0**40), ("pods", 99.0), (GPU, gpus)),
                labels=(("gpu-model", model),),
            )
            for i, (cpu, gpus, model) in enumerate(NODES)
        ),
        podgroups=tuple(
            PodGroupSpec(
                name=f"g{i:02}", queue="q", min_member=1, created=float(i), phase="Inqueue"
            )
            for i in range(len(PODS))
        ),
        tasks=tuple(
            TaskSpec(name=f"t{i:02}", podgroup=f"g{i:02}", shape=request(pod), created=float(i))
            for i, pod in enumerate(PODS)
        ),
    )
    return {uid.rpartition("/")[2]: node for uid, node in run_cycle(snapshot).binds.items()}


def request(pod: Shape) -> Request:
    amounts = (
        ("cpu", pod.cpu_milli / 1000),
        ("memory", pod.memory_mib * MIB),
        (GPU, float(pod.num_gpu)),
    )
    asked = tuple((name, amount) for name, amount in amounts if amount)
    if not pod.models:
        return Request(request=asked)
    wanted = Match(key="gpu-model", op="In", values=pod.models)
    return Request(request=asked, affinity=Affinity(node_required=((wanted,),)))


def experiment(policy: str) -> dict[str, str]:
    """Return the node of each pod as the arrival experiment chooses it, for the same pods and
    nodes.
    """
    nodes = GpuNodes(
        [cpu for cpu, _, _ in NODES],
        [2**20] * len(NODES),
        [gpus for _, gpus, _ in NODES],
        [model for _, _, model in NODES],
    )
    made = maker_of(policy)(nodes, PODS, np.random.Generator(np.random.PCG64(0)))
    for pod in PODS:
        made.observe(pod)  # the session has seen all that wait before it places the first
    placer, choices = Placer(nodes, made), {}
    for i, pod in enumerate(PODS):
        scores = placer.scores(pod)
        if scores.max() > -np.inf:
            row = made.pick_node(scores)
            nodes.take(row, made.pick_devices(row, pod), pod)
            choices[f"t{i:02}"] = f"n{row}"
    return choices


@pytest.mark.parametrize("policy", POLICIES)
def test_the_plugin_picks_what_the_experiment_picks(policy: str) -> None:
    """The pods ask for whole GPUs only. It then does not matter which GPUs of a node are taken, so
    the session and the experiment have the same information.
    """
    choices = experiment(policy)
    assert decided(policy) == choices
    assert len(set(choices.values())) > 2


def test_policies_differ() -> None:
    assert len({tuple(experiment(policy).items()) for policy in POLICIES}) > 4
