"""executorlib: functions as jobs of their own, and as steps of one job."""

import subprocess
import sys
from pathlib import Path

from executorlib import SlurmClusterExecutor

IN_A_JOB = """
from executorlib import SlurmJobExecutor

with SlurmJobExecutor(max_cores=2) as executor:
    futures = [executor.submit(pow, 3, by, resource_dict={"cores": 1}) for by in range(3)]
    print([one.result() for one in futures])
"""


def test_each_function_is_a_job():
    resources = {"cores": 1, "partition": "default"}
    with SlurmClusterExecutor(cache_directory="cache", resource_dict=resources) as executor:
        first = executor.submit(pow, 3, 2)
        second = executor.submit(pow, 2, first)
        assert second.result() == 512


def test_each_function_is_a_step():
    Path("steps.py").write_text(IN_A_JOB)
    line = f"{sys.executable} steps.py"
    command = ["sbatch", "-W", "-Q", "-n", "2", "-o", "out", "--wrap", line]
    ended = subprocess.run(command, check=False)
    assert (ended.returncode, Path("out").read_text()) == (0, "[1, 3, 9]\n")
