"""What a node is started with: the amounts that are given, and for the rest what is found here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from phalanx.engines.declared_topology import read_topology


class NodeAmounts(msgspec.Struct, frozen=True, kw_only=True):
    """A node's resources by name, without those of which it has none; its object store in bytes.

    `topology` says how its GPUs are wired, see `read_topology`; empty: nobody knows.
    """

    resources: dict[str, float]
    object_store_bytes: int
    topology: str = ""


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
    """The amounts of a node on this machine; None stands for what the machine has.

    `is_first`: the node that comes with the head. Raises ValueError for a topology that is none.
    """
    # psutil and pynvml: only who starts a node needs them.
    from phalanx.engines.detection import detect, shared_memory_bytes

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
    if machine.gpus and total["GPU"]:
        total[f"accelerator_type:{machine.gpus[0].model}"] = 1.0
        topology = topology or "detect"
    return NodeAmounts(
        resources={name: amount for name, amount in total.items() if amount},
        object_store_bytes=int(store),
        topology=topology,
    )


def check_amounts(  # noqa: PLR0912  (one line an argument)
    num_cpus: Any, num_gpus: Any, resources: Any, labels: Any, store: Any
) -> None:
    """Raise TypeError or ValueError, naming the argument, unless a node can have these."""
    for name, amount in (("num_cpus", num_cpus), ("num_gpus", num_gpus)):
        if amount is None:
            continue
        if isinstance(amount, bool) or not isinstance(amount, int | float):
            raise TypeError(f"{name} must be a number, got {amount!r}.")
        if not amount >= 0 or amount == float("inf") or amount != int(amount):
            raise ValueError(f"{name} must be a whole number of at least 0, got {amount!r}.")
    if resources is not None:
        if not isinstance(resources, dict):
            raise TypeError(f"resources must be a dict, got {type(resources).__name__}.")
        for key, amount in resources.items():
            if key in ("CPU", "GPU", "memory", "object_store_memory"):
                raise ValueError(
                    f"resources may not name {key}: use num_cpus, num_gpus, _memory or "
                    "object_store_memory."
                )
            if isinstance(amount, bool) or not isinstance(amount, int | float):
                raise TypeError(f"resources[{key!r}] must be a number, got {amount!r}.")
            if not amount >= 0 or amount == float("inf") or amount != int(amount):
                raise ValueError(
                    f"resources[{key!r}] must be a whole number of at least 0, got {amount!r}; "
                    "requests may ask for shares of it."
                )
    if labels is not None and not isinstance(labels, dict):
        raise TypeError(f"labels must be a dict, got {type(labels).__name__}.")
    if store is not None and (isinstance(store, bool) or not isinstance(store, int | float)):
        raise TypeError(f"object_store_memory must be a number of bytes, got {store!r}.")
    if store is not None and store < 75 * 1024 * 1024:
        raise ValueError(
            f"object_store_memory must be at least 78643200 bytes (75 MiB), got {store!r}."
        )
