"""slurm_gpustat: the GPUs of the cluster, who uses them, and which are free."""

import os
import sys

from steps_of_jobs import done, state_of, submit, until

GPUSTAT = os.path.join(os.path.dirname(sys.executable), "slurm_gpustat")


def test_the_gpus_and_their_users_are_shown():
    number = submit("--gres=gpu:1", command="sleep 600")
    until(lambda: state_of(number) == "RUNNING")
    shown = done(GPUSTAT, "--color", "0", "--verbose")
    assert "There are a total of 2 gpus" in shown
    assert "root" in shown
    assert "available" in shown
