#!/usr/bin/env bash
# Asked: simple_slurm: `dependency={"afterok": [5, 6]}` is to wait until the jobs 5 and 6 have
#   succeeded. What is written to the script?
# Good guess: `afterok:5:6`, Slurm's form for several jobs of one condition.
# Truth: `afterok:5,6`. In sbatch(1), a comma begins the next condition, so job 6 is not among the
#   jobs of `afterok`.
# Seen with: simple_slurm==0.3.6, Python 3.11, Linux, 2026-11-29.
# Source: simple_slurm/core.py, the formatting of arguments; sbatch(1), --dependency.
set -euo pipefail

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check simple_slurm==0.3.6
cat > "$work/program.py" <<'PROGRAM'
from importlib.metadata import version

from simple_slurm import Slurm


def written(dependency):
    lines = str(Slurm(dependency=dependency)).splitlines()
    return next(line.split()[-1] for line in lines if "--dependency" in line)


print("simple_slurm", version("simple_slurm"))
one, two = written({"afterok": 5}), written({"afterok": [5, 6]})
print("afterok of 5:", one)
print("afterok of 5 and 6:", two)
assert one == "afterok:5"
assert two == "afterok:5,6"
PROGRAM
"$work/venv/bin/python" "$work/program.py"
