"""slurm_gpustat: the GPUs of the cluster, who uses them, and which are free."""

import os
import sys

from steps_of_jobs import done, over, state_of, submit, until

GPUSTAT = (os.path.join(os.path.dirname(sys.executable), "slurm_gpustat"), "--color", "0")


def test_the_gpus_and_the_free_ones_are_shown():
    lines = done(*GPUSTAT).splitlines()
    (total,) = [line for line in lines if line.startswith("total")]
    assert total.split() == ["total", "2", "2", "2"]
    assert "NONAME_GPU" in done(*GPUSTAT, "--verbose")


def test_the_users_of_gpus_are_shown():
    number = submit("--gres=gpu:1", command="sleep 600")
    until(lambda: state_of(number) == "RUNNING")
    try:
        assert "root" in done(*GPUSTAT)
    finally:
        done("scancel", number)
        over(number)
