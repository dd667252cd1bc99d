#!/usr/bin/env bash
# Asked: A test saves `sys.meta_path`, imports the package importlib_metadata, and puts the
#   saved list back. Does the standard importlib.metadata still find entry points?
# Good guess: Yes: the list is what it was.
# Truth: No: the import takes `find_distributions` away from the standard PathFinder, in place,
#   and puts a finder of its own on `sys.meta_path`. Without that finder no installed package is
#   found, so a program's plug-ins and commands vanish.
# Seen with: importlib-metadata==10.2.0, setuptools==80.9.0, Python 3.11, Linux, 2026-11-28.
# Source: importlib_metadata/_compat.py, install and disable_stdlib_finder.
set -euo pipefail

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check importlib-metadata==10.2.0 setuptools==80.9.0
cd "$work"
cat > program.py <<'PROGRAM'
import sys
from importlib.metadata import entry_points, version

if __name__ == "__main__":
    print("importlib-metadata", version("importlib-metadata"))
    before = len(entry_points())
    saved = list(sys.meta_path)
    import importlib_metadata  # noqa: F401

    between = len(entry_points())
    sys.meta_path[:] = saved
    after = len(entry_points())
    print("entry points before the import:", before > 0, "after it:", between > 0, end=" ")
    print("after sys.meta_path is put back:", after > 0)
    assert before > 0 and between > 0 and after == 0
PROGRAM
"$work/venv/bin/python" program.py
