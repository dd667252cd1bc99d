"""The same script under torchrun and as a gang: the variables that its ranks find, and the losses
that they compute.
"""

import subprocess
import sys
from pathlib import Path

from lines import GANG, HERE, lines

SCRIPT = str(Path(__file__).parents[3] / "examples" / "launchers" / "train_losses.py")


def test_variables_and_losses_are_the_same(cluster):
    alone = lines(f"{HERE}/torchrun", "--nproc-per-node", "4", SCRIPT, of="rank")
    ganged = lines(*GANG, "4", "--", sys.executable, SCRIPT, of="rank")
    assert len(alone) == 24
    assert alone == ganged


def test_what_record_writes_is_the_reason(cluster):
    run = [*GANG, "2", "-e", "FAIL_ON=1", "--", sys.executable, SCRIPT]
    done = subprocess.run(run, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    jobs = subprocess.run([GANG[0], "jobs"], capture_output=True, text=True, check=True)
    assert "ValueError: rank 1 was told to fail" in jobs.stdout
