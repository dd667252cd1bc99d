"""Every row, in the order of the table: Ray's microbenchmark first, in Ray's order."""

from __future__ import annotations

from phalanx_benchmarks.row import Row
from phalanx_benchmarks.rows import (
    actor_systems,
    actors,
    clusters,
    floors,
    groups,
    limits,
    memory,
    objects,
    pools,
    programs,
    starting,
    stress,
    tasks,
)

MICROBENCHMARK: tuple[Row, ...] = (
    *objects.ROWS,
    *tasks.ROWS,
    *actors.ROWS,
    *groups.ROWS,
)

ROWS: tuple[Row, ...] = (
    *MICROBENCHMARK,
    *programs.ROWS,
    *starting.ROWS,
    *memory.ROWS,
    *pools.ROWS,
    *actor_systems.ROWS,
    *floors.ROWS,
    *limits.ROWS,
    *clusters.ROWS,
    *stress.ROWS,
)
