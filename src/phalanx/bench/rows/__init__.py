"""Every row, in the order of the table: Ray's microbenchmark first, in Ray's order and names."""

from __future__ import annotations

from phalanx.bench.row import Row
from phalanx.bench.rows import actors, floors, groups, memory, objects, starting, tasks

MICROBENCHMARK: tuple[Row, ...] = (
    *objects.ROWS[:4],
    tasks.ROWS[0],
    *objects.ROWS[4:],
    *tasks.ROWS[1:],
    *actors.ROWS,
    *groups.ROWS,
)

ROWS: tuple[Row, ...] = (*MICROBENCHMARK, *starting.ROWS, *memory.ROWS, *floors.ROWS)
