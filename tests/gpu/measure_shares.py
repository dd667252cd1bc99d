"""Measures two jobs that share a GPU by time and by MPS, beside one job alone, in one run.

    python -m tests.gpu.measure_shares [SECONDS]

Needs a machine with a GPU and `nvidia-cuda-mps-control`. It starts a cluster of its own on this
machine, runs jobs of small steps on it, and prints a table: the steps of each job in the seconds in
which all of them ran, and the seconds that the second sharer took to start. Each job runs for
SECONDS (20).
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import phalanx

REPO = Path(__file__).parents[2]
PROGRAM = "tests.gpu.small_steps"
GOALS = (
    "goals: the second sharer starts within 1 s; with MPS each of two does at least 80 % of half "
    "of what one does alone, and both together 1.3 times what they do by time"
)


def begin(name: str, seconds: float, **options: object) -> phalanx.JobHandle:
    """Start a job of small steps."""
    job = phalanx.Job(
        [sys.executable, "-m", PROGRAM, str(seconds)],
        name=name,
        working_dir=str(REPO),
        env={"PYTHONPATH": str(REPO)},
        **options,  # type: ignore[arg-type]
    )
    return phalanx.submit(job)


def said(handle: phalanx.JobHandle) -> tuple[float, dict[int, int]]:
    """Return the seconds until a finished job was ready, and its steps in each whole second."""
    handle.wait()
    (_, ready), *lines = (line.split() for line in handle.logs().splitlines() if " " in line)
    counts = {int(second): int(count) for second, count in lines[1:]}  # the first is not whole
    return float(ready), counts


def row(name: str, found: list[tuple[float, dict[int, int]]]) -> str:
    """Return a row of the table."""
    together = set.intersection(*(set(counts) for _, counts in found))
    rates = [sum(counts[at] for at in together) / len(together) for _, counts in found]
    each = ", ".join(f"{rate:,.0f}" for rate in rates)
    return f"| {name} | {each} | {sum(rates):,.0f} | {found[-1][0]:.2f} |"


def main(seconds: float) -> None:
    """Print the table."""
    phalanx.init(num_cpus=4, num_gpus=1, include_dashboard=False)
    try:
        rows = [("alone", [said(begin("alone", seconds, num_gpus=1))])]
        for mode in ("time", "mps"):
            shares: dict[str, object] = {"num_gpus": 0.5, "gpu_share": mode}
            handles = [begin(f"first-{mode}", seconds, **shares)]
            time.sleep(5.0)
            handles.append(begin(f"second-{mode}", seconds, **shares))
            rows.append((mode, [said(handle) for handle in handles]))
    finally:
        phalanx.shutdown()
    print("| GPU | steps/s of each | together | the last one ready after, s |\n|---|---|---|---|")
    print("\n".join(row(name, found) for name, found in rows))
    print(GOALS)


if __name__ == "__main__":
    os.environ.setdefault("PYTHONPATH", str(REPO))
    main(float(sys.argv[1]) if len(sys.argv) > 1 else 20.0)
