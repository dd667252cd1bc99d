#!/usr/bin/env bash
# Asked: ReFrame: which `--time` does a test with `time_limit = 90` ask Slurm for?
# Good guess: 90 minutes: a bare number is passed to Slurm as it is.
# Truth: 0:1:30: a bare number is seconds.
# Seen with: reframe-hpc==4.10.4, Python 3.11, Linux, 2026-11-28.
# Source: reframe/core/fields.py, TimerField.
set -euo pipefail

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check reframe-hpc==4.10.4
cd "$work"
cat > program.py <<'PROGRAM'
import re
import subprocess
from importlib.metadata import version
from pathlib import Path

SITE = """
site_configuration = {
    "systems": [{"name": "s", "hostnames": [".*"], "partitions": [
        {"name": "p", "scheduler": "squeue", "launcher": "srun", "environs": ["builtin"]}]}],
    "environments": [{"name": "builtin"}],
}
"""
TEST = """
import reframe as rfm

@rfm.simple_test
class Bare(rfm.RunOnlyRegressionTest):
    valid_systems = ["*"]
    valid_prog_environs = ["*"]
    executable = "true"
    time_limit = 90

    @sanity_function
    def is_well(self):
        return True
"""

if __name__ == "__main__":
    print("reframe-hpc", version("reframe-hpc"))
    Path("site.py").write_text(SITE)
    Path("bare.py").write_text(TEST)
    subprocess.run(
        ["venv/bin/reframe", "-C", "site.py", "-c", "bare.py", "--dry-run"],
        capture_output=True,
        check=True,
    )
    (script,) = Path("stage").rglob("rfm_job.sh")
    limit = re.search(r"--time=(\S+)", script.read_text())[1]
    print("time_limit = 90:", limit)
    assert limit == "0:1:30"
PROGRAM
"$work/venv/bin/python" program.py
