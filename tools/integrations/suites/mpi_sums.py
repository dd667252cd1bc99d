"""MPI's hello and an allreduce by mpi4py, on two nodes, under each installed MPI."""

import re
import shutil
import sys
from pathlib import Path

import pytest
from lines import GANG, lines

SCRIPT = str(Path(__file__).parents[3] / "examples" / "launchers" / "mpi_sum.py")
OPEN_MPI = {
    "MPI4PY_MPIABI": "openmpi",
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_btl": "self,tcp",
}
"""Variables of Open MPI. They let it run as root, and keep it from using shared memory between the
two nodes, which are on one machine.
"""


def mpich(directory):
    """Link MPICH's library under the name by which mpi4py's wheel looks for it. Debian does not
    have that name.
    """
    for path in Path("/usr/lib").glob("*/libmpich.so.12"):
        (directory / "libmpi.so.12").symlink_to(path)
    return {"MPI4PY_MPIABI": "mpich", "LD_LIBRARY_PATH": str(directory)}


@pytest.mark.parametrize("kind", ["openmpi", "mpich"])
def test_four_ranks_on_two_nodes(two_nodes, tmp_path, kind):
    mpirun = f"mpirun.{kind}"
    if shutil.which(mpirun) is None:
        pytest.skip(f"{mpirun} is missing: on Debian, apt-get install openmpi-bin mpich")
    env = OPEN_MPI if kind == "openmpi" else mpich(tmp_path)
    words = [word for name, value in env.items() for word in ("-e", f"{name}={value}")]
    through = [sys.executable, "-m", "phalanx.adapters.mpi", "--mpirun", mpirun]
    found = lines(*GANG, "4", *words, "--", *through, sys.executable, SCRIPT, of="hello")
    form = r"hello from rank (\d) of 4 on node (\w+): the sum is 10"
    matched = [re.fullmatch(form, line) for line in found]
    assert all(matched), found
    assert [one[1] for one in matched] == ["0", "1", "2", "3"]
    assert len({one[2] for one in matched}) == 2
