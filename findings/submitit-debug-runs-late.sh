#!/usr/bin/env bash
# Asked: submitit: `AutoExecutor(cluster="debug")` runs jobs in the program itself. When does a
#   submitted function run?
# Good guess: At `submit`, before it returns.
# Truth: At the first `result()` (or `exception()`, `wait()`). A job whose result nobody reads
#   never runs, and its side effects never happen.
# Seen with: submitit==1.5.4, Python 3.11, Linux, 2026-11-28.
# Source: submitit/local/debug.py, DebugJob.
set -euo pipefail

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check submitit==1.5.4
cd "$work"
cat > program.py <<'PROGRAM'
from importlib.metadata import version
from pathlib import Path

import submitit


def write():
    Path("written.txt").touch()
    return "written"


if __name__ == "__main__":
    print("submitit", version("submitit"))
    executor = submitit.AutoExecutor(folder="logs", cluster="debug")
    job = executor.submit(write)
    before = Path("written.txt").exists()
    print("after submit the function has run:", before)
    print("result():", job.result())
    after = Path("written.txt").exists()
    print("after result() the function has run:", after)
    assert (before, after) == (False, True)
PROGRAM
"$work/venv/bin/python" program.py
