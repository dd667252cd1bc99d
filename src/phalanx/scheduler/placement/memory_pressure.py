"""Chooses the workers that are ended when a node runs short of memory, and which of their tasks run
again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

MEMORY_LIMIT = 0.95
"""The fraction of its memory (0 to 1) that a node may use before it ends workers."""
IDLE_WORTH_ENDING_BYTES = 1 << 30
"""An idle worker that holds at least this many bytes is ended before any busy worker."""


@dataclass(frozen=True, kw_only=True)
class WorkerMemory:
    """The facts about a worker on which the choice depends. `started_s`: when the worker's task
    began, on a clock that all workers share. An idle worker has no task.
    """

    name: str
    memory_bytes: int = 0
    started_s: float = 0.0
    is_retriable: bool = False
    is_idle: bool = False


@dataclass(frozen=True, kw_only=True)
class Kill:
    """A worker to end. `retry`: whether its task will run again."""

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
    """Return the workers to end, in order, so that at most `threshold_bytes - buffer_bytes` stay in
    use. Return none if at most `threshold_bytes` are in use.

    Large idle workers come first, the largest before the others. Then come workers with retriable
    tasks, then all other busy workers. In both groups the newest task comes first, so that the
    least work is lost. Small idle workers are never ended, because starting new ones would cost
    more. Ties are broken by name.
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
