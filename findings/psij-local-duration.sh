#!/usr/bin/env bash
# Asked: PSI/J's local executor runs a job of five seconds whose `duration` is one second. How
#   does the job end?
# Good guess: It is ended after about a second, as FAILED or CANCELED.
# Truth: It runs to its end and is COMPLETED with exit code 0: the local executor does not read
#   `duration`. A program that was tried locally meets its limit first on the cluster.
# Seen with: psij-python==0.9.11, Python 3.11, Linux, 2026-11-28.
# Source: psij/executors/local.py.
set -euo pipefail

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check psij-python==0.9.11
cd "$work"
cat > program.py <<'PROGRAM'
import time
from datetime import timedelta
from importlib.metadata import version

import psij

if __name__ == "__main__":
    print("psij-python", version("psij-python"))
    limit = psij.JobAttributes(duration=timedelta(seconds=1))
    job = psij.Job(psij.JobSpec(executable="/bin/sleep", arguments=["5"], attributes=limit))
    begin = time.monotonic()
    psij.JobExecutor.get_instance("local").submit(job)
    status = job.wait(timeout=timedelta(seconds=60))
    print(f"limit 1 s: {status.state.name}, exit code {status.exit_code}, after", end=" ")
    print(f"{time.monotonic() - begin:.0f} s")
    assert status.state is psij.JobState.COMPLETED
    assert time.monotonic() - begin >= 5
PROGRAM
"$work/venv/bin/python" program.py
