#!/usr/bin/env bash
# Asked: pysqa: a queue has `cores_max: 8` and `run_time_max: 3600`. What happens to a job that
#   asks for 64 cores and two hours?
# Good guess: It is refused with an error that names the limit.
# Truth: It is submitted with 8 cores and one hour, without a word: values outside the queue's
#   limits are replaced by the limits. Memory above `memory_max` is not replaced.
# Seen with: pysqa==1.1.1, Python 3.11, Linux, 2026-11-28.
# Source: pysqa/base/config.py, check_queue_parameters and _value_in_range.
set -euo pipefail

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check pysqa==1.1.1
cd "$work"
cat > program.py <<'PROGRAM'
from importlib.metadata import version
from pathlib import Path

from pysqa import QueueAdapter

if __name__ == "__main__":
    print("pysqa", version("pysqa"))
    Path("queue.yaml").write_text(
        "queue_type: SLURM\nqueue_primary: q\nqueues:\n"
        "  q: {cores_max: 8, cores_min: 2, run_time_max: 3600, memory_max: 16GB}\n"
    )
    adapter = QueueAdapter(directory=".")
    large = adapter.check_queue_parameters(queue="q", cores=64, run_time_max=7200)
    small = adapter.check_queue_parameters(queue="q", cores=1)
    memory = adapter.check_queue_parameters(queue="q", cores=4, memory_max="64GB")
    print("64 cores, 7200 s:", large)
    print("1 core:", small)
    print("64GB:", memory)
    assert large == (8, 3600, None)
    assert small == (2, 3600, None)
    assert memory == (4, 3600, "64GB")
PROGRAM
"$work/venv/bin/python" program.py
