#!/usr/bin/env bash
# Asked: dramatiq: an actor with `time_limit=300` (milliseconds) runs for three seconds in a
#   `dramatiq.Worker` that a program or a test starts by itself, as the guide to tests shows. When is
#   it interrupted?
# Good guess: After 0.3 to 1.3 s, because limits are looked at once a second.
# Truth: Never. The thread that looks at limits is started by the event `after_process_boot`, which
#   only the command `dramatiq` emits. With `broker.emit_after("process_boot")` before the first
#   message the limit holds. The same holds for other parts that start at this event.
# Seen with: dramatiq==2.2.1, Python 3.11, Linux, 2026-11-28.
# Source: dramatiq/middleware/time_limit.py, `after_process_boot`; dramatiq/cli.py.
set -euo pipefail

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check dramatiq==2.2.1
cd "$work"
cat > program.py <<'PROGRAM'
import logging
import time
from importlib.metadata import version

import dramatiq
from dramatiq.brokers.stub import StubBroker

logging.disable(logging.CRITICAL)


def outcome(is_booted):
    broker = StubBroker()
    dramatiq.set_broker(broker)
    ends = []

    @dramatiq.actor(max_retries=0, time_limit=300)
    def slow():
        try:
            for _ in range(30):
                time.sleep(0.1)
            ends.append("ran to its end")
        except BaseException as error:
            ends.append(type(error).__name__)
            raise

    if is_booted:
        broker.emit_after("process_boot")
    worker = dramatiq.Worker(broker, worker_threads=1)
    worker.start()
    slow.send()
    broker.join("default", timeout=20_000, fail_fast=False)
    worker.join()
    worker.stop()
    return ends


if __name__ == "__main__":
    print("dramatiq", version("dramatiq"))
    plain, booted = outcome(False), outcome(True)
    print("a Worker alone:", plain)
    print("after process_boot:", booted)
    assert plain == ["ran to its end"]
    assert booted == ["TimeLimitExceeded"]
PROGRAM
"$work/venv/bin/python" program.py
