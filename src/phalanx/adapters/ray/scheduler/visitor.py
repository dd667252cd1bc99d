"""Requests to a Ray cluster's scheduler from visitors, such as the command line."""

from __future__ import annotations

import logging
from typing import TypeVar

import ray
from ray.util.placement_group import (
    PlacementGroup,
    placement_group_table,
    remove_placement_group,
)

from phalanx.adapters.ray.scheduler.client import SchedulerClient
from phalanx.adapters.ray.scheduler.options import (
    GROUP,
    NAMESPACE,
    NODE_AGENT,
    SCHEDULER,
    SchedulerOptions,
)
from phalanx.protocol.requests.jobs import ApplyManifests
from phalanx.protocol.requests.queues import CreateQueue, ListQueues
from phalanx.protocol.requests.request import Request

R = TypeVar("R")

STARTS = (ApplyManifests, CreateQueue)
"""The types of requests for which a scheduler is started if none runs."""
START_S = 60.0
"""Additional seconds for an answer while a scheduler is started."""


def ask_cluster(address: str, request: Request[R], timeout_s: float) -> R:
    """Return the answer to one request.

    `address`: `ray:auto`, `ray:HOST:PORT` or `ray://HOST:PORT`.

    The first request connects this process to Ray. Raises ConnectionError if the cluster or its
    scheduler does not exist, GetTimeoutError, and the error that the scheduler answers.
    """
    _connect(address)
    starts = isinstance(request, STARTS)
    client = SchedulerClient.connect(start=starts)
    return client.ask(request, timeout_s=timeout_s + START_S * starts)


def start_scheduler(address: str, options: SchedulerOptions) -> bool:
    """Start the scheduler of a Ray cluster with these options. Returns False if a scheduler already
    runs, which keeps its own options. Raises ConnectionError, and the error that prevents the
    scheduler's start.
    """
    _connect(address)
    try:
        SchedulerClient.connect(start=False)
    except ConnectionError:
        SchedulerClient.connect(options).ask(ListQueues(), timeout_s=START_S)
        return True
    return False


def stop_scheduler(address: str) -> int:
    """End the scheduler of a Ray cluster, its node agents and all work that they run.

    The resources of gangs are given back. Returns the number of ended actors. Raises
    ConnectionError.
    """
    _connect(address)
    found = [
        row["name"]
        for row in ray.util.list_named_actors(all_namespaces=True)
        if row["namespace"] == NAMESPACE and row["name"].startswith((SCHEDULER, NODE_AGENT))
    ]
    for name in sorted(found, reverse=True):  # the scheduler first: it would restart node agents
        ray.kill(ray.get_actor(name, namespace=NAMESPACE))
    for group, row in placement_group_table().items():
        if row["name"].startswith(GROUP) and row["state"] != "REMOVED":
            remove_placement_group(PlacementGroup(ray.PlacementGroupID.from_hex(group)))
    return len(found)


def _connect(address: str) -> None:
    if ray.is_initialized():
        return
    where = address if address.startswith("ray://") else address.removeprefix("ray:")
    try:
        ray.init(where or "auto", log_to_driver=False, logging_level=logging.ERROR)
    except Exception as error:
        raise ConnectionError(f"The Ray cluster at {address} cannot be reached: {error}") from None
