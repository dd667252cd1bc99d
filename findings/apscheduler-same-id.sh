#!/usr/bin/env bash
# Asked: APScheduler 3: two jobs are added with the same id before the scheduler starts. Which call
#   fails?
# Good guess: The second `add_job`, with ConflictingIdError.
# Truth: Neither. Both are listed, and `start()` raises ConflictingIdError: far from the line at
#   fault, and the scheduler stays stopped, so no job runs. After `start()` the second `add_job` itself
#   fails.
# Seen with: APScheduler==3.11.3, Python 3.11, Linux, 2026-11-28.
# Source: apscheduler/schedulers/base.py, `_pending_jobs`.
set -euo pipefail

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check APScheduler==3.11.3
cd "$work"
cat > program.py <<'PROGRAM'
from importlib.metadata import version

from apscheduler.jobstores.base import ConflictingIdError
from apscheduler.schedulers.background import BackgroundScheduler


def add(scheduler):
    scheduler.add_job(print, "interval", hours=1, id="same")


def outcome(call, *args):
    try:
        call(*args)
    except ConflictingIdError:
        return "ConflictingIdError"
    return "no error"


if __name__ == "__main__":
    print("APScheduler", version("apscheduler"))
    early = BackgroundScheduler(timezone="UTC")
    before = [outcome(add, early), outcome(add, early)]
    listed = len(early.get_jobs())
    start = outcome(early.start)
    running = BackgroundScheduler(timezone="UTC")
    running.start()
    after = [outcome(add, running), outcome(add, running)]
    running.shutdown()
    print("added before the start:", before, "listed:", listed)
    print("start:", start, "running:", early.running)
    print("added after the start:", after)
    assert before == ["no error", "no error"]
    assert (listed, start, early.running) == (2, "ConflictingIdError", False)
    assert after == ["no error", "ConflictingIdError"]
PROGRAM
"$work/venv/bin/python" program.py
