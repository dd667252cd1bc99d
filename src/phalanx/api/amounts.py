"""Checks the amounts of resources with which a node is started."""

from __future__ import annotations

from typing import Any

from phalanx.model.options import ACCELERATORS, LARGEST_AMOUNT, MOST_DEVICES


def check_amounts(  # noqa: PLR0912  (one line an argument)
    num_cpus: Any = None,
    num_gpus: Any = None,
    resources: Any = None,
    labels: Any = None,
    object_store_memory: Any = None,
) -> None:
    """Raise TypeError or ValueError, which names the argument, for amounts that a node cannot
    have.
    """
    for name, amount in (("num_cpus", num_cpus), ("num_gpus", num_gpus)):
        if amount is None:
            continue
        if isinstance(amount, bool) or not isinstance(amount, int | float):
            raise TypeError(f"{name} must be a number, got {amount!r}.")
        if not amount >= 0 or amount == float("inf") or amount != int(amount):
            raise ValueError(f"{name} must be a whole number of at least 0, got {amount!r}.")
        _check_largest(name, amount, is_device=name == "num_gpus")
    if resources is not None:
        if not isinstance(resources, dict):
            raise TypeError(f"resources must be a dict, got {type(resources).__name__}.")
        for key, amount in resources.items():
            if not key:
                raise ValueError("resources has an entry without a name.")
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
            _check_largest(f"resources[{key!r}]", amount, is_device=key in ACCELERATORS)
    store = object_store_memory
    if labels is not None and not isinstance(labels, dict):
        raise TypeError(f"labels must be a dict, got {type(labels).__name__}.")
    if store is not None and (isinstance(store, bool) or not isinstance(store, int | float)):
        raise TypeError(f"object_store_memory must be a number of bytes, got {store!r}.")
    if store is not None and store < 75 * 1024 * 1024:
        raise ValueError(
            f"object_store_memory must be at least 78643200 bytes (75 MiB), got {store!r}."
        )
    if store is not None:
        _check_largest("object_store_memory", store)


def _check_largest(name: str, amount: float, *, is_device: bool = False) -> None:
    largest = MOST_DEVICES if is_device else LARGEST_AMOUNT
    if amount > largest:
        raise ValueError(f"{name} must be at most {largest:g}, got {amount!r}.")
