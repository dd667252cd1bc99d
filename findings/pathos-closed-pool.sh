#!/usr/bin/env bash
# Asked: A program makes a `ProcessPool(2)`, closes and joins it, and later makes another
#   `ProcessPool(2)`. Does the second work?
# Good guess: Yes: it is a new object with new processes.
# Truth: No: pools of equal parameters share one hidden pool, which stays closed. `map` raises
#   ValueError ("Pool not running") until `clear()` or `restart()` is called, or another size is
#   asked for.
# Seen with: pathos==0.3.5, Python 3.11, Linux, 2026-11-28.
# Source: pathos/multiprocessing.py, __STATE and ProcessPool._serve.
set -euo pipefail

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check pathos==0.3.5
cd "$work"
cat > program.py <<'PROGRAM'
from importlib.metadata import version

from pathos.pools import ProcessPool

if __name__ == "__main__":
    print("pathos", version("pathos"))
    first = ProcessPool(2)
    print("first:", first.map(abs, [-1]))
    first.close()
    first.join()
    second = ProcessPool(2)
    try:
        second.map(abs, [-2])
    except ValueError as error:
        print("second:", type(error).__name__, error)
    else:
        raise AssertionError("the second pool works")
    second.clear()
    third = ProcessPool(2)
    print("after clear():", third.map(abs, [-3]))
PROGRAM
"$work/venv/bin/python" program.py
