#!/usr/bin/env bash
# Asked: Lithops' localhost backend: which Python runs the functions?
# Good guess: The one that runs the program (`sys.executable`).
# Truth: The first `python` in PATH. A program that is started as `venv/bin/python program.py`,
#   without activating the environment, runs its functions in another Python: they fail where
#   that one lacks Lithops, or find other versions of packages.
# Seen with: lithops==3.8.0, Python 3.11, Linux, 2026-11-28.
# Source: lithops/localhost/v2/localhost.py, the environment's command line.
set -euo pipefail

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check lithops==3.8.0
cd "$work"
cat > program.py <<'PROGRAM'
import os
import shutil
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import lithops


def where(_):
    import sys

    return sys.executable


if __name__ == "__main__":
    print("lithops", version("lithops"))
    first = Path("first").resolve()
    first.mkdir()
    marker = first / "asked.txt"
    (first / "python").write_text(f'#!/bin/sh\necho asked >> {marker}\nexec {sys.executable} "$@"\n')
    (first / "python").chmod(0o755)
    os.environ["PATH"] = f"{first}:{os.environ['PATH']}"
    executor = lithops.LocalhostExecutor(log_level="ERROR")
    executor.map(where, [1])
    print("result:", executor.get_result())
    print("the `python` that is first in PATH was started:", marker.exists())
    assert marker.exists()
PROGRAM
"$work/venv/bin/python" program.py
