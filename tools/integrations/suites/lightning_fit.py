"""Lightning's Trainer on two nodes with two processes each, and its error for another number of
processes.
"""

import re
import subprocess
import sys
from pathlib import Path

from lines import GANG, lines

SCRIPT = Path(__file__).parents[3] / "examples" / "launchers" / "lightning_fit.py"
RUN = [*GANG, "4", "-e", "OMP_NUM_THREADS=1", "--", sys.executable]


def test_four_ranks_on_two_nodes_end_with_the_same_weights(two_nodes):
    found = lines(*RUN, str(SCRIPT), of="rank")
    matched = [re.fullmatch(r"rank (\d) of 4: weights sum to (.+)", line) for line in found]
    assert all(matched), found
    assert [one[1] for one in matched] == ["0", "1", "2", "3"]
    assert len({one[2] for one in matched}) == 1


def test_a_number_of_processes_that_is_not_the_gangs_is_refused(two_nodes, tmp_path):
    other = tmp_path / "other.py"
    other.write_text(SCRIPT.read_text().replace("devices=here", "devices=here + 1"))
    done = subprocess.run([*RUN, str(other)], capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "devices * num_nodes is 6, but the gang has 4 members" in done.stdout + done.stderr
