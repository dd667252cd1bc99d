#!/usr/bin/env bash
# Asked: PSI/J: how often does a job with `ResourceSpecV1(process_count=3)` run its executable?
# Good guess: Three times.
# Truth: Once: the default launcher is `single`. It takes `launcher="multiple"` (or one of
#   MPI's) to run three. Nothing warns.
# Seen with: psij-python==0.9.11, Python 3.11, Linux, 2026-11-28.
# Source: psij/executors/local.py and psij/launchers/single.py.
set -euo pipefail

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check psij-python==0.9.11
cd "$work"
cat > program.py <<'PROGRAM'
from datetime import timedelta
from importlib.metadata import version
from pathlib import Path

import psij


def runs(**options):
    path = Path("ran.txt").resolve()
    path.write_text("")
    spec = psij.JobSpec(
        executable="/bin/sh",
        arguments=["-c", f"echo ran >> {path}"],
        resources=psij.ResourceSpecV1(process_count=3),
        **options,
    )
    job = psij.Job(spec)
    psij.JobExecutor.get_instance("local").submit(job)
    state = job.wait(timeout=timedelta(seconds=60)).state
    return state.name, len(path.read_text().split())


if __name__ == "__main__":
    print("psij-python", version("psij-python"))
    default, multiple = runs(), runs(launcher="multiple")
    print("process_count=3:", default)
    print('process_count=3, launcher="multiple":', multiple)
    assert default == ("COMPLETED", 1)
    assert multiple == ("COMPLETED", 3)
PROGRAM
"$work/venv/bin/python" program.py
