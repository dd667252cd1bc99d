"""Twelve nodes under the selector's policy: which work goes to which node, with which GPUs and
ports.

    .venv/bin/python examples/selector.py

The nodes declare GPUs that they need not have. Tasks, actors and gangs pass the selector's chain:
label, GPU type, no work without GPUs on nodes with GPUs, room, rack. Then they go to one of the two
fullest nodes that remain. At the end the example prints why a task, an actor and a gang wait.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import phalanx
from phalanx.cluster_utils import Cluster

PLACEMENT = {
    "policy": "selector",
    "candidate_factor": 2,
    "allow_cpu_jobs_on_gpu_nodes": False,
    "same_rack": "prefer",
}
Options = dict[str, Any]
NODES: dict[str, Options] = {
    "plain-1": {},
    "plain-2": {},
    "vision-1": {"num_gpus": 2, "labels": {"lab": "vision"}},
    "vision-2": {"num_gpus": 2, "labels": {"lab": "vision"}},
    **{
        f"k80-{number}": {"num_gpus": 4, "resources": {"accelerator_type:K80": 1}, "ports": ports}
        for number, ports in enumerate(
            ("21000-21019", "21010-21029", "21000-21012,21018-21040", "21008-21050"), start=1
        )
    },
    **{
        f"v100-{number}": {
            "num_gpus": 8,
            "resources": {"accelerator_type:V100": 1},
            "labels": {"rack": rack},
            "topology": "dgx1v",
            "ports": "22000-22099",
        }
        for number, rack in enumerate(("west", "west", "east", "east"), start=1)
    },
}
"""The options of each node by its name. In addition, each node has four CPUs."""


@phalanx.remote(num_cpus=1)
def where() -> tuple[str, list[int]]:
    """Return the node and the GPUs that a task was given."""
    context = phalanx.get_runtime_context()
    return context.get_node_id(), _gpus()


@phalanx.remote(num_cpus=0)
class Worker:
    """An actor that keeps its GPUs while it lives."""

    def where(self) -> tuple[str, list[int], list[int]]:
        """Return the actor's node, its GPUs, and the ports of its gang."""
        context = phalanx.get_runtime_context()
        ports = context.gang.ports if context.gang is not None else []
        return context.get_node_id(), _gpus(), list(ports)


def _gpus() -> list[int]:
    return sorted(int(gpu) for gpu in phalanx.get_gpu_ids())


def main() -> None:
    """Go through the rules one by one, and print the result of each."""
    with twelve_nodes() as names:
        for title, found in show(names).items():
            print(f"{title}: {found}")


@contextlib.contextmanager
def twelve_nodes() -> Iterator[dict[str, str]]:
    """Start the cluster, with this process as its driver. Yields the names of the nodes by their
    ids.
    """
    cluster = Cluster(placement=PLACEMENT)
    try:
        ids = [cluster.add_node(num_cpus=4, **options).node_id for options in NODES.values()]
        cluster.connect()
        cluster.wait_for_nodes()
        yield dict(zip(ids, NODES, strict=True))
    finally:
        cluster.shutdown()


def show(names: dict[str, str]) -> dict[str, Any]:
    """Return the result of each rule of the chain on this cluster, by a title. `names`: the names
    of the nodes by id.
    """
    found: dict[str, Any] = {}

    def task(**options: Any) -> tuple[str, list[int]]:
        node, gpus = phalanx.get(where.options(**options).remote())
        return names[node], gpus

    def hold(**options: Any) -> tuple[Any, str, list[int]]:
        worker = Worker.options(**options).remote()
        node, gpus, _ = phalanx.get(worker.where.remote())
        return worker, names[node], gpus

    found["a task without GPUs"] = task()
    found["a task for the lab 'vision'"] = task(num_gpus=1, label_selector={"lab": "vision"})

    three, first, gpus = hold(num_gpus=3, accelerator_type="K80")
    found["an actor with three K80"] = (first, gpus)
    four, second, gpus = hold(num_gpus=4, accelerator_type="K80")
    found["an actor with four K80"] = (second, gpus)
    two, third, gpus = hold(num_gpus=2, accelerator_type="K80")
    found["an actor with two K80"] = (third, gpus)
    pair, west_or_east, gpus = hold(num_gpus=2, accelerator_type="V100")
    found["an actor with two V100, wired by NVLink"] = (west_or_east, gpus)
    eight, near, gpus = hold(num_gpus=8, accelerator_type="V100")
    found["an actor with eight V100 goes to the same rack"] = (near, gpus)

    found["a task for one K80, to one of the two fullest"] = task(
        num_gpus=1, accelerator_type="K80"
    )

    for worker in (three, four, two):
        phalanx.kill(worker)
    gang = Worker.options(num_gpus=3, accelerator_type="K80").gang(3, ports=2).remote()
    members = phalanx.get([member.where.remote() for member in gang])
    found["a gang of three with three K80 each"] = [(names[n], gpus) for n, gpus, _ in members]
    found["its ports"] = members[0][2]

    # `pair` and `eight` are still there, so two machines with eight free V100 are left, of four.
    found["why a task waits"] = phalanx.explain(
        where.options(num_gpus=9, accelerator_type="V100").remote()
    )
    found["why an actor waits"] = phalanx.explain(
        Worker.options(num_gpus=1, accelerator_type="H100").remote()
    )
    late = Worker.options(num_gpus=8, accelerator_type="V100").gang(4, ports=1).remote()
    found["why a gang waits"] = phalanx.explain(late)
    for worker in (pair, eight):
        phalanx.kill(worker)
    return found


if __name__ == "__main__":
    main()
