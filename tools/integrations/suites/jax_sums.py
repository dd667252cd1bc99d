"""JAX's processes on two nodes with two members each: their ranks, and a sum over all of them."""

import sys
from pathlib import Path

from lines import GANG, lines

SCRIPT = str(Path(__file__).parents[3] / "examples" / "launchers" / "jax_sum.py")


def test_four_processes_on_two_nodes(two_nodes):
    found = lines(*GANG, "4", "-e", "JAX_PLATFORMS=cpu", "--", sys.executable, SCRIPT, of="process")
    assert found == [f"process {rank} of 4: the sum is 10" for rank in range(4)]
