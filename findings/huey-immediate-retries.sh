#!/usr/bin/env bash
# Asked: huey with `immediate=True`, which tests use: a task with `retries=2, retry_delay=60` always
#   fails. How many times does it run?
# Good guess: Three times, at once: immediate mode needs no worker, so nothing is waited for.
# Truth: Once. The second run is put into the schedule, and in immediate mode nothing reads the
#   schedule; tasks of `schedule(delay=1)` do not run either. With a delay of 0 all three run. A test
#   in this mode never sees what happens after the first failure.
# Seen with: huey==3.5.4, Python 3.11, Linux, 2026-11-28.
# Source: huey/api.py, `enqueue` and `_requeue_task`.
set -euo pipefail

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check huey==3.5.4
cd "$work"
cat > program.py <<'PROGRAM'
import logging
from importlib.metadata import version

from huey import MemoryHuey

logging.disable(logging.CRITICAL)
huey = MemoryHuey(immediate=True)
runs = []


@huey.task(retries=2, retry_delay=60)
def later():
    runs.append("later")
    raise ValueError


@huey.task(retries=2)
def soon():
    runs.append("soon")
    raise ValueError


@huey.task()
def delayed():
    runs.append("delayed")


if __name__ == "__main__":
    print("huey", version("huey"))
    later()
    soon()
    delayed.schedule(delay=1)
    print("runs:", runs)
    print("left in the schedule:", len(huey.scheduled()))
    assert runs == ["later", "soon", "soon", "soon"]
    assert len(huey.scheduled()) == 2
PROGRAM
"$work/venv/bin/python" program.py
