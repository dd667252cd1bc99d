"""Made-up tasks: those of a program that loads, trains and evaluates on the workers of a few
machines.
"""

from __future__ import annotations

import random
from typing import Any

from tests.unit.dashboard.world import GIB, NOW, actor, task

from phalanx.observe.state.query import StateAnswer, StatePart, StateQuery, lets_through

KINDS = (("load_shard", 0.4, 8), ("augment", 0.15, 8), ("train_step", 2.0, 5), ("evaluate", 4.0, 1))
FUNCTIONS = [kind for kind in KINDS for _ in range(kind[2])]
ERRORS = ("TASK_EXECUTION_EXCEPTION", "OUT_OF_MEMORY", "WORKER_DIED")
DEATHS = (
    "The actor died because all handles to it went out of scope.",
    "The actor is dead because its worker process has died: signal SIGKILL.",
    "The actor is dead because it was killed by `ray.kill` (phalanx.kill).",
)
WORKERS = 4
"""The number of workers on each machine."""


def drawn_tasks(nodes: list[str], seed: int = 5) -> list[dict[str, Any]]:
    """Return rows of random tasks that the workers of these nodes have run in the last minute."""
    rng = random.Random(seed)
    rows: list[dict[str, Any]] = []
    for at, node in enumerate(nodes):
        for number in range(WORKERS):
            rows += _of_worker(rng, node, f"{at * WORKERS + number:056x}", 4_000 + 31 * number)
    return rows


def _of_worker(rng: random.Random, node: str, worker: str, pid: int) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    at = NOW - rng.uniform(40, 58)
    while at < NOW - 1:
        name, mean, _ = rng.choice(FUNCTIONS)
        length = rng.expovariate(1 / mean)
        end = at + length
        fields: dict[str, Any] = {
            "name": name, "func_or_class_name": name, "node_id": node, "worker_id": worker,
            "worker_pid": pid, "creation_time_ms": round(1000 * (at - 0.3)),
            "start_time_ms": round(1000 * at), "end_time_ms": round(1000 * end),
        }  # fmt: skip
        if end > NOW:
            fields |= {"state": "RUNNING", "start_time_ms": None, "end_time_ms": None}
        elif rng.random() < 0.04:
            fields |= {"state": "FAILED", "error_type": rng.choice(ERRORS)}
        found.append(task(rng.getrandbits(190), **fields))
        at = end + (rng.uniform(2, 9) if rng.random() < 0.08 else rng.uniform(0, 0.05))
    return found


def told(query: StateQuery, rows: list[dict[str, Any]]) -> StateAnswer:
    """Return the answer to a query over these rows, filtered and counted."""
    among = [row for row in rows if lets_through(query.filters, row)]
    if not query.count_by:
        return StateAnswer(StatePart(among, len(rows), len(among)), [])
    counts: dict[tuple[Any, ...], int] = {}
    for row in among:
        key = tuple(row.get(name) for name in query.count_by)
        counts[key] = counts.get(key, 0) + 1
    part = StatePart([], len(rows), len(among), [(list(key), n, 0.0) for key, n in counts.items()])
    return StateAnswer(part, [])


def actors(query: StateQuery, nodes: list[str]) -> StateAnswer:
    """Return the answer to a query about actors, or about the programs that made them."""
    if query.kind == "drivers":
        programs = ("python train.py --epochs 90 --data /shared/imagenet", "python serve.py")
        rows: list[dict[str, Any]] = [
            {"job_id": f"0{n}000000", "entrypoint": program} for n, program in enumerate(programs)
        ]
        return StateAnswer(StatePart(rows, len(rows), len(rows)), [])
    rng, rows = random.Random(8), []
    for n, kind in enumerate([*["Trainer"] * 9, *["Loader"] * 27]):
        row = actor(
            n, class_name=kind, name="best" if n == 2 else "", pid=4_000 + 31 * n,
            node_id=rng.choice(nodes), start_time_ms=round(1000 * (NOW - rng.uniform(50, 9_000))),
            num_restarts=rng.choice((0, 0, 0, 1)), job_id=f"0{n % 2}000000",
        )  # fmt: skip
        if n in (8, 9):
            row |= {"state": ("RESTARTING", "PENDING_CREATION")[n - 8], "start_time_ms": None,
                    "node_id": None, "pid": None}  # fmt: skip
        if n > 32:
            row |= {"state": "DEAD", "end_time_ms": round(1000 * (NOW - n)),
                    "death_cause": {"error_message": DEATHS[n - 33]}}  # fmt: skip
        rows.append(row)
    return told(query, rows)


def objects(query: StateQuery, nodes: list[str]) -> StateAnswer:
    """Return the answer to a query about objects and stores. The places where objects are made are
    not recorded.
    """
    rng = random.Random(3)
    if query.kind == "stores":
        rows = [
            {"node_id": node, "objects": rng.randint(5, 900), "capacity_bytes": 100 * GIB,
             "shared_bytes": rng.random() * 90 * GIB, "pinned_bytes": GIB,
             "spilled_objects": rng.choice((0, 7)), "spilled_bytes": rng.choice((0, 9 * GIB))}
            for node in nodes
        ]  # fmt: skip
        return StateAnswer(StatePart(rows, len(rows), len(rows)), [])
    if query.count_by:
        return StateAnswer(StatePart([], 900, 900, [(["disabled"], 900, 300 * GIB)]), [])
    listed = [
        {"object_id": f"{rng.getrandbits(220):056x}", "object_size": (40 - n) * GIB // 8,
         "reference_type": "LOCAL_REFERENCE", "type": "WORKER", "pid": 4_000 + n,
         "node_id": rng.choice(nodes), "task_status": "FINISHED", "call_site": "disabled"}
        for n in range(30)
    ]  # fmt: skip
    return StateAnswer(StatePart(listed, 900, 900), [])
