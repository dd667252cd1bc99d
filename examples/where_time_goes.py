"""Shows where a driver's time goes while it submits and collects empty tasks.

Prints the share of each part of Phalanx in the driver's own CPU time, by module.
"""

from __future__ import annotations

import cProfile
import pstats
import time
from collections import Counter
from pathlib import Path

import phalanx

BATCH = 1000
ROUNDS = 50


@phalanx.remote
def nothing() -> bytes:
    """Do nothing."""
    return b"ok"


def run(rounds: int) -> None:
    """Submit and collect `rounds` batches."""
    for _ in range(rounds):
        phalanx.get([nothing.remote() for _ in range(BATCH)])


def main() -> None:
    """Warm up, measure without the profiler, then with it."""
    phalanx.init(num_cpus=2)
    run(20)
    began, cpu = time.perf_counter(), time.process_time()
    run(ROUNDS)
    count = ROUNDS * BATCH
    wall_us = (time.perf_counter() - began) / count * 1e6
    cpu_us = (time.process_time() - cpu) / count * 1e6
    profiler = cProfile.Profile()
    profiler.enable()
    run(ROUNDS)
    profiler.disable()
    shares: Counter[str] = Counter()
    for (file, _, name), entry in pstats.Stats(profiler).stats.items():  # type: ignore[attr-defined]
        path = Path(file)
        shares[f"{path.parent.name}/{path.stem}" if path.suffix else name] += entry[2]
    total = sum(shares.values())
    print(f"{wall_us:.1f} us a task, {cpu_us:.1f} us of them the driver's CPU")
    for part, seconds in shares.most_common(14):
        print(f"{seconds / total:6.1%}  {part}")
    phalanx.shutdown()


if __name__ == "__main__":
    main()
