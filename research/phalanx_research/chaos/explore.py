"""`make explore`: runs random seeds until the time is over, and records each seed that fails.

    python -m phalanx_research.chaos.explore [--seconds 60] [--found FILE]

The exit code is 1 if any seed failed.
"""

from __future__ import annotations

import argparse
import secrets
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from phalanx_research.chaos.run import Result, try_seed

LARGEST_SEED = 2**31


def main(arguments: Sequence[str] | None = None) -> int:
    """Run seeds until the time is over, and print each seed that failed. The last seed is
    finished.
    """
    parser = argparse.ArgumentParser(prog="explore", description=__doc__)
    parser.add_argument(
        "--seconds", type=float, default=60.0, help="seconds to explore (default: 60)"
    )
    parser.add_argument("--found", type=Path, help="file to which failing seeds are appended")
    options = parser.parse_args(arguments)
    start = secrets.randbelow(LARGEST_SEED)
    until = time.monotonic() + options.seconds
    failed: list[Result] = []
    count = 0
    while time.monotonic() < until:
        result, _ = try_seed(start + count)
        count += 1
        if result.broken:
            failed.append(result)
            _tell(result, options.found)
    print(f"{count} seeds from {start} to {start + count - 1}, {len(failed)} failed")
    return 1 if failed else 0


def _tell(result: Result, found: Path | None) -> None:
    print("\n".join(result.story))
    print(f"seed {result.seed} failed: {result.broken}\n{result.replay}", flush=True)
    if found is not None:
        with found.open("a", encoding="utf-8") as file:
            file.write(f"{result.seed}  # {result.broken[:160]}\n")


if __name__ == "__main__":
    sys.exit(main())
