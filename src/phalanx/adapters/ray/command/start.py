"""`phalanx start` and `stop` with the address of a Ray cluster: the scheduler there."""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING

import typer

from phalanx.cli.reach import fail
from phalanx.cli.table import say

if TYPE_CHECKING:
    from phalanx.policies.placement_policy import PlacementPolicy


def start_on_ray(
    address: str, store: list[str], gpu_resource: str, topology: str, placement: PlacementPolicy
) -> None:
    """Start the scheduler with these options; say so when one runs already, with its own."""
    _need_ray(address)
    from phalanx.engines.ray.scheduler.options import SchedulerOptions
    from phalanx.engines.ray.scheduler.visitor import start_scheduler

    options = SchedulerOptions(
        store=tuple(store) or ("kv",),
        gpu_resource=gpu_resource,
        topology=topology,
        placement=placement,
    )
    if start_scheduler(address, options):
        say(f"The scheduler runs on the Ray cluster at {address}.")
    else:
        typer.echo(
            f"A scheduler runs there already, with its own options. `phalanx stop --address "
            f"{address}` ends it and all jobs that it runs."
        )


def stop_on_ray(address: str) -> None:
    """End the scheduler and what it runs."""
    _need_ray(address)
    from phalanx.engines.ray.scheduler.visitor import stop_scheduler

    count = stop_scheduler(address)
    typer.echo(
        f"Ended the scheduler and the agents of {count - 1} nodes."
        if count
        else "No scheduler of Phalanx runs there."
    )


def _need_ray(address: str) -> None:
    if importlib.util.find_spec("ray") is None:
        fail(f"{address} is a Ray cluster, for which ray is needed: pip install 'phalanx[ray]'.")
