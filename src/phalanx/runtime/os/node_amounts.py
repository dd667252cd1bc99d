"""The resources with which a node is started: the given amounts, and detected amounts for all
others.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from typing import TYPE_CHECKING

import msgspec

from phalanx.model.environments import TOOL_LABEL
from phalanx.model.gpu_sharing import MEMORY as GPU_MEMORY
from phalanx.model.gpu_sharing import MPS
from phalanx.model.machines import MachineShare
from phalanx.runtime.containers.finding import find_tool
from phalanx.runtime.devices.mps import has_mps
from phalanx.runtime.os.declared_topology import read_topology
from phalanx.runtime.os.system import boot_id
from phalanx.runtime.os.visible_devices import check_devices

if TYPE_CHECKING:
    from phalanx.runtime.os.detection import DetectedGpu


class NodeAmounts(msgspec.Struct, frozen=True, kw_only=True):
    """A node's resources by name, without resources whose amount is zero, and its object store in
    bytes.

    `topology`: the wiring of the node's GPUs, as for `read_topology`; "" if it is unknown.
    """

    resources: dict[str, float]
    object_store_bytes: int
    topology: str = ""
    labels: dict[str, str] = {}
    """Labels for the node's system and devices, under Kubernetes' names. Files that select nodes
    use such labels.
    """
    machine: MachineShare | None = None
    """The node's machine, and which of the amounts a person has given."""


_ONE_TYPE = {"neuron_cores": "aws-neuron-core"}
"""Devices of which only one type exists, each with the name of that type in `accelerator_type`."""

_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


_ACCELERATOR = "ray.io/accelerator-type"
_OF_OPERATORS = {
    "RAY_NODE_MARKET_TYPE": "ray.io/market-type",
    "RAY_NODE_TYPE_NAME": "ray.io/node-group",
    "RAY_NODE_REGION": "ray.io/availability-region",
    "RAY_NODE_ZONE": "ray.io/availability-zone",
}


def _of_rays_operators(has_tpus: bool) -> dict[str, str]:
    """Return labels under Ray's names. They come from the variables that Ray's operators set for a
    node.
    """
    labels = {
        label: text for name, label in _OF_OPERATORS.items() if (text := os.environ.get(name))
    }
    if has_tpus and (kind := os.environ.get("TPU_ACCELERATOR_TYPE")):  # for example "v4-16"
        labels[_ACCELERATOR] = f"TPU-{kind.partition('-')[0].upper()}"
    return labels


def _labels(gpu: DetectedGpu | None) -> dict[str, str]:
    """Return the labels of the machine and of `gpu`, one of the node's GPUs, if it has any."""
    machine = platform.machine()
    labels = {
        "kubernetes.io/os": platform.system().lower(),
        "kubernetes.io/arch": _ARCHITECTURES.get(machine, machine),
        "kubernetes.io/hostname": platform.node(),
    }
    if (tool := find_tool()) is not None:
        labels[TOOL_LABEL] = tool.name
    if gpu is not None:
        labels["nvidia.com/gpu.product"] = gpu.product.replace(" ", "-")
        labels[_ACCELERATOR] = gpu.model
    return labels


def machine_key() -> str:
    """Return a text that identifies this machine or, in a container, this container. All processes
    there get the same text.
    """
    try:
        processes = os.readlink("/proc/self/ns/pid")
    except OSError:
        processes = ""
    return f"{boot_id()} {processes}"


def is_unbound() -> bool:
    """Whether this process may run on all CPUs of the machine."""
    return len(os.sched_getaffinity(0)) >= (os.cpu_count() or 1)


def node_amounts(
    num_cpus: float | None = None,
    num_gpus: float | None = None,
    resources: Mapping[str, float] | None = None,
    object_store_memory: int | None = None,
    *,
    memory: float | None = None,
    topology: str = "",
    host: str = "127.0.0.1",
    is_first: bool = False,
) -> NodeAmounts:
    """Return the amounts of a node on this machine. None stands for the detected amount.

    `is_first`: whether the node is started together with the head. Raises ValueError for a
    malformed topology, and for more devices than the environment shows.
    """
    # Imported here because only a process that starts a node needs psutil and pynvml.
    from phalanx.runtime.os.detection import detect, shared_memory_bytes

    if topology:
        read_topology(topology)
    machine = detect()
    store = float(object_store_memory or shared_memory_bytes())
    total: dict[str, float] = {
        "CPU": machine.cpus if num_cpus is None else num_cpus,
        "GPU": len(machine.gpus) if num_gpus is None else num_gpus,
        "memory": float(memory or 0.7 * machine.memory_bytes),
        "object_store_memory": store,
        f"node:{host}": 1.0,
        "node:__internal_head__": float(is_first),
        **(resources or {}),
    }
    given = {"CPU": num_cpus, "GPU": num_gpus, "memory": memory, **(resources or {})}
    share = MachineShare(
        key=machine_key(),
        amounts={
            "CPU": float(machine.cpus if is_unbound() else os.cpu_count() or machine.cpus),
            "GPU": float(len(machine.gpus)),
            "memory": 0.7 * machine.memory_bytes,
        },
        given=tuple(name for name, amount in given.items() if amount is not None),
    )
    check_devices(total, os.environ)
    if machine.gpus and total["GPU"]:
        total[f"accelerator_type:{machine.gpus[0].model}"] = 1.0
        topology = topology or "detect"
        least = min(gpu.memory_bytes for gpu in machine.gpus)
        total.setdefault(GPU_MEMORY, float(least))
        if has_mps():
            total.setdefault(MPS, 1.0)
    total.update(
        {f"accelerator_type:{kind}": 1.0 for name, kind in _ONE_TYPE.items() if total.get(name)}
    )
    return NodeAmounts(
        resources={name: amount for name, amount in total.items() if amount},
        object_store_bytes=int(store),
        topology=topology,
        machine=share,
        labels={
            **_labels(machine.gpus[0] if machine.gpus and total["GPU"] else None),
            **_of_rays_operators(bool(total.get("TPU"))),
        },
    )
