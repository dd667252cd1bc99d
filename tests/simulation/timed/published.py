"""A second, direct implementation of the published policies, without sessions and plugins.

All jobs are placed again in order at every arrival and finish; under tiresias also whenever a job
falls to a lower queue. Jobs that do not fit are skipped.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from phalanx_research.timed import Job
from phalanx_research.timed.workload import GPU

Outcome = dict[str, tuple[float, int]]
"""The finish time of each job, and how often it was stopped."""


def place(jobs: list[dict[str, Any]], nodes: int, node_gpus: int) -> list[bool]:
    """Return for each job whether it fits. Jobs of less than a node go to the first node with
    enough free GPUs, larger jobs to whole free nodes.
    """
    free = [node_gpus] * nodes
    fits = []
    for job in jobs:
        whole, rest = divmod(job["gpus"], node_gpus)
        if rest:
            whole, sizes = 0, [job["gpus"]]
        else:
            sizes = [node_gpus] * whole
        left, good = list(free), True
        for size in sizes:
            at = next((i for i, room in enumerate(left) if room >= size), None)
            if at is None:
                good = False
                break
            left[at] -= size
        fits.append(good)
        if good:
            free = left
    return fits


def run(jobs: list[Job], nodes: int, node_gpus: int, policy: str) -> Outcome:
    """Return the outcome under srtf, srsf or tiresias (which counts GPUs and ignores nodes)."""
    table: list[dict[str, Any]] = [
        {
            "name": j.name, "at": j.submit_s, "left": j.work_s, "gpus": round(j.amount(GPU)),
            "cost": j.overhead_s, "on": False, "ran": 0.0, "stops": 0, "last": 0.0,
        }
        for j in jobs
    ]  # fmt: skip
    orders: dict[str, Callable[[dict[str, Any]], float]] = {
        "srtf": lambda x: x["left"],
        "srsf": lambda x: x["left"] * x["gpus"],
    }
    limits = (3_250, 7_200)
    queues: list[list[dict[str, Any]]] = [[], [], []]
    live: list[dict[str, Any]] = []
    out: Outcome = {}
    coming = sorted(table, key=lambda x: x["at"])
    ends: list[tuple[float, dict[str, Any]]] = []
    fall = math.inf
    while coming or live:
        now = min([c["at"] for c in coming[:1]] + [t for t, _ in ends] + [fall])
        for end, x in ends:
            if end <= now:
                out[x["name"]] = (now, x["stops"])
                live.remove(x)
                for queue in queues:
                    if x in queue:
                        queue.remove(x)
        while coming and coming[0]["at"] <= now:
            live.append(coming[0])
            queues[0].append(coming[0])
            coming.pop(0)
        for x in live:
            if x["on"]:
                x["left"] -= max(now - x["last"] - x["cost"], 0.0)
                x["ran"] += now - x["last"]
                level = next(i for i, queue in enumerate(queues) if x in queue)
                if level < 2 and x["ran"] * x["gpus"] >= limits[level] - 1e-6:
                    queues[level].remove(x)
                    queues[level + 1].append(x)
            x["last"] = now
        if policy == "tiresias":
            order = [x for queue in queues for x in queue]
            room = nodes * node_gpus
            fits = []
            for x in order:
                fits.append(x["gpus"] <= room)
                room -= x["gpus"] * fits[-1]
        else:
            live.sort(key=orders[policy])
            order = live
            fits = place(order, nodes, node_gpus)
        for x, good in zip(order, fits, strict=True):
            x["stops"] += x["on"] and not good
            x["on"] = good
        queues = [[x for x in q if x["on"]] + [x for x in q if not x["on"]] for q in queues]
        ends = [(now + x["left"], x) for x in live if x["on"]]
        fall = math.inf
        if policy == "tiresias":
            for level, queue in enumerate(queues[:2]):
                for x in queue:
                    if x["on"]:
                        fall = min(fall, now + math.ceil(limits[level] / x["gpus"]) - x["ran"])
    return out
