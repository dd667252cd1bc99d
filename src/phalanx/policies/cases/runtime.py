"""Cases about one node at work: fair dispatch, blocked tasks, memory that runs short."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from phalanx.policies.cases.cluster import amounts
from phalanx.policies.cases.compare import NO_NODE, Case, Finding, Findings, Unusable, equal, need
from phalanx.policies.fair_dispatch import QueuedClass, dispatch
from phalanx.policies.memory_pressure import Kill, WorkerMemory, kills_by_owner, kills_by_time
from phalanx.resources.instances import Allocation, NodeResources
from phalanx.resources.sets import ResourceSet


def fair_dispatch(case: Case) -> Findings:
    """Which of the queued tasks start."""
    queue = need(case, "queue")
    running = case.get("running") or {}
    each = case.get("requests") or {}
    names = [*dict.fromkeys([*queue, *running])]
    requests = {name: amounts(each.get(name, case.get("request"))) for name in names}
    classes = [
        QueuedClass(
            name=name,
            request=requests[name],
            queued=queue.count(name),
            running=running.get(name, 0),
        )
        for name in names
    ]
    total = amounts(need(case, "node"))
    left = total
    for name, count in running.items():
        for _ in range(count):
            left = left - requests[name]
    granted = list(dispatch(classes, left, total.get("CPU", 0)))
    waiting = list(queue)
    for name in granted:
        waiting.remove(name)
    got = {"granted": sorted(granted), "waiting": sorted(waiting), "queued": sorted(waiting)}
    expected = need(case, "expect")
    if not isinstance(expected, Mapping):
        expected = {"granted": expected}
    wanted = {
        key: sorted(names) if isinstance(names, list) else names for key, names in expected.items()
    }
    yield equal("", wanted, {key: got.get(key) for key in wanted})


def blocked_in_get(case: Case) -> Findings:
    """What a node has free while tasks that hold resources wait in get."""
    group = {f"pg {name}": amount for name, amount in (case.get("pg") or {}).items()}
    node = NodeResources({**need(case, "node"), **group}, frozenset({"GPU", "pg GPU"}))
    lent: dict[str, Allocation] = {}
    held: dict[str, ResourceSet] = {}
    for worker in need(case, "running"):
        for name, request in worker.items():
            held[name] = amounts(request)
            if node.acquire(held[name]) is None:
                raise Unusable(f"{name} does not fit on the node: {request}")
    for at, step in enumerate(need(case, "steps")):
        event = str(need(step, "event"))
        for name, request in step.items():
            if name not in ("event", "available", "note"):
                held[name] = amounts(request)
                if node.acquire(held[name]) is None:
                    raise Unusable(f"{name} does not fit on the node: {request}")
        for name in _named(event, held):
            cpu = ResourceSet({k: v for k, v in held[name].items() if k in ("CPU", "pg CPU")})
            if re.search(r"\b(unblock|resume)", event):
                if name in lent:
                    node.force_acquire(lent.pop(name).resources)
            elif re.search(r"\bblock", event) and name not in lent:
                lent[name] = Allocation(resources=cpu)
                node.release(lent[name])
        expected = need(step, "available")
        free = node.available()
        yield equal(f"step {at + 1}", expected, {name: free.get(name, 0) for name in expected})


def object_store(case: Case) -> Findings:
    """What is reported as free of a store that may be used beyond its size."""
    total = need(case, "total_MiB")
    for at, step in enumerate(need(case, "steps")):
        used = need(step, "used_MiB")
        if isinstance(used, str):
            used = total + 1
        node = NodeResources({"object_store_memory": total})
        node.force_acquire(amounts({"object_store_memory": used}))
        got = node.available()["object_store_memory"]
        yield equal(f"step {at + 1}", need(step, "available_MiB"), got)


def oom_by_time(case: Case) -> Findings:
    """Whom the memory watch ends, newest first."""
    workers = _workers(need(case, "workers"))
    kills = kills_by_time(
        workers,
        used_bytes=need(case, "used"),
        threshold_bytes=need(case, "threshold"),
        buffer_bytes=case.get("buffer", 0),
        idle_bytes=case.get("idle_threshold", case.get("idle_min", 1 << 30)),
    )
    yield from _killed(need(case, "expect"), kills, workers)


def oom_by_owner(case: Case) -> Findings:
    """Whom the older memory watch ends, group by group."""
    workers = _workers(need(case, "workers"))
    yield from _killed(need(case, "expect"), kills_by_owner(workers), workers)


def _killed(expected: Any, kills: Sequence[Kill], workers: list[WorkerMemory]) -> Findings:
    order = [kill.worker for kill in kills]
    if not isinstance(expected, Mapping):
        expected = {"kill_order": expected}
    for key, wanted in expected.items():
        if key in ("kill_order", "kill"):
            listed = wanted if isinstance(wanted, list) else [wanted]
            yield equal(key, [name for name in listed if name not in NO_NODE], order)
        elif key == "kills":
            got = [[kill.worker, "retry" if kill.retry else "no retry"] for kill in kills]
            plain = [[name, re.sub(r"\s*\(.*\)", "", str(retry))] for name, retry in wanted]
            yield equal(key, plain, got[: len(plain)])
        elif key == "retry":
            yield _retried(wanted, kills, workers)
        else:
            raise Unusable(f"unknown expectation {key!r}; known: kill_order, kills, retry")


def _retried(wanted: Any, kills: Sequence[Kill], workers: list[WorkerMemory]) -> Finding:
    got = {kill.worker: kill.retry for kill in kills}
    if isinstance(wanted, str) and "retriable" in wanted:
        wanted = {worker.name: worker.is_retriable for worker in workers if worker.name in got}
    elif isinstance(wanted, list):
        return equal("retry", wanted, list(got.values()))
    elif isinstance(wanted, bool):
        wanted = dict.fromkeys(got, wanted)
    return equal("retry", wanted, got)


_STARTED = ("started", "start", "started_s", "time", "t", "granted", "assigned", "order")
_ORDER = ("oldest", "older", "old", "new", "newer", "newest")
_NUMBERS = {"two": 2, "three": 3, "four": 4, "five": 5}


def _workers(given: Any) -> list[WorkerMemory]:
    if isinstance(given, str):
        return _described(given)
    if isinstance(given, Mapping):
        given = [{"name": name, **(worker or {})} for name, worker in given.items()]
    workers = []
    for at, worker in enumerate(given):
        if len(worker) == 1 and isinstance(next(iter(worker.values())), Mapping):
            ((name, inner),) = worker.items()
            worker = {"name": name, **inner}
        workers.append(
            WorkerMemory(
                name=str(_first(worker, ("name", "id", "worker", "task"), f"w{at + 1}")),
                memory_bytes=_first(worker, ("used", "memory", "memory_bytes", "bytes", "mem"), 0),
                started_s=_began(worker, at),
                is_retriable=bool(_first(worker, ("retriable", "retry", "is_retriable"), False)),
                owner=str(_first(worker, ("owner", "parent"), "")),
                is_idle=bool(_first(worker, ("idle", "is_idle"), False)),
            )
        )
    return workers


def _described(text: str) -> list[WorkerMemory]:
    """Workers told in words: `two retriable tasks of one owner`, the older one first."""
    found = re.fullmatch(
        r"(\w+) (non-)?retriable tasks?(?: of (one|different) owners?)?", text.strip()
    )
    if not found:
        raise Unusable(f"workers are a list, or like 'two retriable tasks of one owner': {text!r}")
    count = int(found[1]) if found[1].isdigit() else _NUMBERS.get(found[1], 1)
    names = ["older", "newer"] if count == 2 else [f"w{at + 1}" for at in range(count)]
    return [
        WorkerMemory(
            name=name,
            started_s=at,
            is_retriable=not found[2],
            owner="owner" if found[3] != "different" else f"owner {at}",
        )
        for at, name in enumerate(names)
    ]


def _began(worker: Mapping[str, Any], at: int) -> float:
    """When a worker's task began: a number, a word, its age, or its place in the list."""
    began = _first(worker, _STARTED, -worker["age"] if "age" in worker else at)
    return float(_ORDER.index(began) if began in _ORDER else began)


def _first(worker: Mapping[str, Any], keys: Sequence[str], default: Any) -> Any:
    return next((worker[key] for key in keys if key in worker), default)


def _named(event: str, held: Mapping[str, ResourceSet]) -> list[str]:
    named = [name for name in held if re.search(rf"\b{re.escape(name)}\b", event)]
    return named or list(held)


AREAS: Mapping[str, Callable[[Case], Findings]] = {
    "dispatch": fair_dispatch,
    "blocked_in_get": blocked_in_get,
    "object_store": object_store,
    "oom_by_time": oom_by_time,
    "oom_by_owner": oom_by_owner,
}
