#!/usr/bin/env bash
# Asked: signac-flow: an operation has the directive `walltime: 90`. Which limit does its Slurm
#   script ask for?
# Good guess: 90 minutes, as a bare number means to Slurm (or 90 seconds).
# Truth: 90 hours: `#SBATCH -t 90:00:00`. A `datetime.timedelta` says its unit.
# Seen with: signac-flow==0.29.1, signac==2.4.1, Python 3.11, Linux, 2026-11-28.
# Source: flow/directives.py, the directive walltime.
set -euo pipefail

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check signac-flow==0.29.1 signac==2.4.1
cd "$work"
cat > program.py <<'PROGRAM'
import os
import re
from importlib.metadata import version

import signac
from flow import FlowProject
from flow.environment import DefaultSlurmEnvironment
from flow.scheduling.base import Scheduler

SCRIPTS = []


class Recorder(Scheduler):
    """A scheduler that keeps the script instead of submitting it."""

    @classmethod
    def is_present(cls):
        return True

    def jobs(self):
        return iter(())

    def submit(self, script, **options):
        SCRIPTS.append(script)
        return True


class Cluster(DefaultSlurmEnvironment):
    scheduler_type = Recorder


class Project(FlowProject):
    pass


@Project.operation(directives={"walltime": 90})
def work(job):
    pass


if __name__ == "__main__":
    print("signac-flow", version("signac-flow"))
    os.makedirs("project")
    os.chdir("project")
    signac.init_project().open_job({"a": 1}).init()
    Project.get_project(environment=Cluster).submit(names=["work"])
    limit = re.search(r"#SBATCH -t (\S+)", SCRIPTS[0])[1]
    print("walltime 90:", limit)
    assert limit == "90:00:00"
PROGRAM
"$work/venv/bin/python" program.py
