#!/usr/bin/env bash
# Asked: Jug: a file makes the tasks f(1), f(1) and f(2). How often does f run, and does it run
#   again when its body is edited?
# Good guess: Three times, and again after the edit.
# Truth: Twice, and not again: a task is known by the name of its function and its arguments.
#   Equal calls are one task, and the stored result stays valid whatever the function's code
#   says now, until `jug invalidate`.
# Seen with: jug==2.7.0, Python 3.11, Linux, 2026-11-28.
# Source: jug/task.py, Task.hash.
set -euo pipefail

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check jug==2.7.0
cd "$work"
cat > program.py <<'PROGRAM'
import subprocess
from importlib.metadata import version
from pathlib import Path

FILE = """
from jug import TaskGenerator

@TaskGenerator
def f(x):
    print("ran with", x)
    return x + {added}

results = [f(x) for x in (1, 1, 2)]
"""


def runs(added):
    Path("jugfile.py").write_text(FILE.format(added=added))
    done = subprocess.run(
        ["venv/bin/jug", "execute"], capture_output=True, text=True, check=True
    )
    return done.stdout.count("ran with")


if __name__ == "__main__":
    print("jug", version("jug"))
    first, edited = runs(1), runs(100)
    print("runs of f(1), f(1), f(2):", first)
    print("runs after its body was edited:", edited)
    assert (first, edited) == (2, 0)
PROGRAM
"$work/venv/bin/python" program.py
