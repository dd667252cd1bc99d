"""Which workers to end when a node runs short of memory, and which of their tasks run again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

IDLE_WORTH_ENDING_BYTES = 1 << 30
"""Idle workers that hold at least this much are ended before any that works."""


@dataclass(frozen=True, kw_only=True)
class WorkerMemory:
    """One worker as the memory watch sees it.

    `started_s`: when its task began, on any clock that all workers share. `owner`: who submitted
    the task. An idle worker has no task to lose.
    """

    name: str
    memory_bytes: int = 0
    started_s: float = 0.0
    is_retriable: bool = False
    owner: str = ""
    is_idle: bool = False


@dataclass(frozen=True, kw_only=True)
class Kill:
    """One worker to end; `retry`: whether its task is to run again."""

    worker: str
    retry: bool


def kills_by_time(
    workers: Sequence[WorkerMemory],
    *,
    used_bytes: int,
    threshold_bytes: int,
    buffer_bytes: int = 0,
    idle_bytes: int = IDLE_WORTH_ENDING_BYTES,
) -> tuple[Kill, ...]:
    """The workers to end, in order, until what is used would be `threshold - buffer` at most.

    None while no more than the threshold is used. Large idle workers first, the largest before
    the others; then retriable tasks before others, the newest first, so that the least work is
    lost. A small idle worker is never worth its start. Ties break by name.
    """
    if used_bytes <= threshold_bytes:
        return ()
    idle = [w for w in workers if w.is_idle and w.memory_bytes >= idle_bytes]
    busy = [w for w in workers if not w.is_idle]
    idle.sort(key=lambda worker: (-worker.memory_bytes, worker.name))
    busy.sort(key=lambda worker: (not worker.is_retriable, -worker.started_s, worker.name))
    kills: list[Kill] = []
    for worker in (*idle, *busy):
        if used_bytes <= threshold_bytes - buffer_bytes:
            break
        kills.append(Kill(worker=worker.name, retry=worker.is_retriable))
        used_bytes -= worker.memory_bytes
    return tuple(kills)


def kill_by_owner(workers: Sequence[WorkerMemory]) -> Kill | None:
    """The next worker to end by the older policy, None when there is none.

    Workers form groups by owner; what is not retriable is a group of its own. Retriable groups
    come first, then the largest, then the one that began last. In it the newest goes. The last
    of a group does not run again: whatever runs alone and still is too much would be too much
    the next time.
    """
    groups: dict[tuple[bool, str], list[WorkerMemory]] = {}
    for worker in workers:
        if not worker.is_idle:
            alone = "" if worker.is_retriable else worker.name
            key = (worker.is_retriable, f"{worker.owner}/{alone}")
            groups.setdefault(key, []).append(worker)
    if not groups:
        return None
    (retriable, _), group = min(
        groups.items(),
        key=lambda item: (
            not item[0][0],
            -len(item[1]),
            -min(worker.started_s for worker in item[1]),
            item[0][1],
        ),
    )
    newest = min(group, key=lambda worker: (-worker.started_s, worker.name))
    return Kill(worker=newest.name, retry=retriable and len(group) > 1)


def kills_by_owner(workers: Sequence[WorkerMemory]) -> tuple[Kill, ...]:
    """The order in which `kill_by_owner` would end all workers, one after the other."""
    left = list(workers)
    kills: list[Kill] = []
    while (kill := kill_by_owner(left)) is not None:
        kills.append(kill)
        left = [worker for worker in left if worker.name != kill.worker]
    return tuple(kills)
