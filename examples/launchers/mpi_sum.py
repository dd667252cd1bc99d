"""MPI's hello, and an allreduce, by mpi4py inside a job.

pip install mpi4py                  # and an MPI: apt-get install openmpi-bin, or mpich
phalanx run --gang 4 -- python -m phalanx.adapters.mpi python examples/launchers/mpi_sum.py
"""

from __future__ import annotations

import os

try:
    from mpi4py import MPI
except ModuleNotFoundError as error:
    raise SystemExit(f"This example needs {error.name}: pip install mpi4py") from None

world = MPI.COMM_WORLD
total = world.allreduce(world.rank + 1, op=MPI.SUM)
node = os.environ.get("PHALANX_NODE", "?")[:8]
print(
    f"hello from rank {world.rank} of {world.size} on node {node}: the sum is {total}", flush=True
)
