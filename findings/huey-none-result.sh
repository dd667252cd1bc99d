#!/usr/bin/env bash
# Asked: huey: a task returns None. What does `result.get(blocking=True, timeout=1)` give once the
#   task has run?
# Good guess: None, at once.
# Truth: It raises ResultTimeout after the second. A result of None is not stored, so a task that
#   returned nothing looks like one that has not run; without `timeout` the caller would wait without
#   end. `store_none=True` of the constructor stores it.
# Seen with: huey==3.5.4, Python 3.11, Linux, 2026-11-28.
# Source: huey/api.py, `_execute` (`store_none`).
set -euo pipefail

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check huey==3.5.4
cd "$work"
cat > program.py <<'PROGRAM'
from importlib.metadata import version

from huey import MemoryHuey
from huey.exceptions import ResultTimeout


def got(huey):
    ran = []

    @huey.task()
    def work():
        ran.append(True)

    result = work()
    assert ran == [True]
    try:
        return result.get(blocking=True, timeout=1)
    except ResultTimeout:
        return "ResultTimeout"


if __name__ == "__main__":
    print("huey", version("huey"))
    usual, stores = got(MemoryHuey(immediate=True)), got(MemoryHuey(immediate=True, store_none=True))
    print("by default:", usual)
    print("store_none=True:", stores)
    assert usual == "ResultTimeout"
    assert stores is None
PROGRAM
"$work/venv/bin/python" program.py
