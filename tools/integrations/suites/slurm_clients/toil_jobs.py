"""Toil's batch system for Slurm: a workflow of three jobs."""

import subprocess
import sys
from pathlib import Path

WORKFLOW = """
from toil.common import Toil
from toil.job import Job


def root(job):
    parts = [job.addChildJobFn(part, one, cores=1, memory="400M", disk="10M") for one in (1, 2)]
    return job.addFollowOnJobFn(total, [one.rv() for one in parts], memory="400M", disk="10M").rv()


def part(job, one):
    return one * 10


def total(job, parts):
    return sum(parts)


if __name__ == "__main__":
    options = Job.Runner.getDefaultArgumentParser().parse_args()
    with Toil(options) as toil:
        print("total", toil.start(Job.wrapJobFn(root, cores=1, memory="400M", disk="10M")))
"""


def test_a_workflow_runs(directory):
    Path("workflow.py").write_text(WORKFLOW)
    command = [sys.executable, "workflow.py", "--batchSystem", "slurm", "--maxCores", "2"]
    command += ["--slurmTime", "0:10:00", "--workDir", str(directory), str(directory / "store")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=500)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "total 30" in done.stdout
