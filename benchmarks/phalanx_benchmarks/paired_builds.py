"""Compares the calls of two builds of Phalanx, batch by batch: `python -m
phalanx_benchmarks.paired_builds PYTHON`, where PYTHON is the interpreter of the other build.

The speed of a shared machine can change by a factor of two within seconds. So both builds run at
the same time, a batch of one follows a batch of the other, and each pair of batches gives one
ratio. The median of many ratios is steady even if times are not.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from phalanx_benchmarks import call_batches


class Build:
    """A process with one build, which measures one batch at a time."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self.rows = self._read().split("\t")

    def measure(self, row: str) -> float:
        """Return the seconds of one call in a new batch of the row."""
        assert self._process.stdin is not None
        self._process.stdin.write(row + "\n")
        self._process.stdin.flush()
        return float(self._read())

    def _read(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit("a build ended before it answered; its error stands above")
        return line.rstrip("\n")


@contextmanager
def started(python: str) -> Iterator[Build]:
    """Start the build of this interpreter; end it with the block."""
    command = [python, os.path.abspath(call_batches.__file__)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            yield Build(process)
        finally:
            assert process.stdin is not None
            process.stdin.close()


def pairs(other: str, sessions: int, batches: int) -> dict[str, list[tuple[float, float]]]:
    """Return for each row the seconds of one call, in pairs of the other build and this one.

    Each session starts both builds anew. The builds take turns at being first.
    """
    found: dict[str, list[tuple[float, float]]] = {}
    for _ in range(sessions):
        with started(other) as theirs, started(sys.executable) as ours:
            for row in ours.rows:
                theirs.measure(row)
                ours.measure(row)  # the first batches warm both up
            for batch in range(batches):
                for row in ours.rows:
                    if batch % 2:
                        pair = theirs.measure(row), ours.measure(row)
                    else:
                        mine = ours.measure(row)
                        pair = theirs.measure(row), mine
                    found.setdefault(row, []).append(pair)
    return found


def main() -> None:
    """Print a line for each row."""
    parser = argparse.ArgumentParser(description="Compare the calls of two builds of Phalanx.")
    parser.add_argument("python", help="interpreter of the other build")
    parser.add_argument("--sessions", type=int, default=6, help="starts of both builds")
    parser.add_argument("--batches", type=int, default=60, help="batches of each row in a session")
    given = parser.parse_args()
    print(f"{'row':32} {'ratio':>6} {'quartiles':>12} {'other':>9} {'this':>9}")
    for row, found in pairs(given.python, given.sessions, given.batches).items():
        low, middle, high = statistics.quantiles((mine / other for other, mine in found), n=4)
        other, mine = (statistics.median(side) * 1e6 for side in zip(*found, strict=True))
        print(
            f"{row:32} {middle:6.2f} {low:5.2f} - {high:4.2f} {other:6.1f} µs {mine:6.1f} µs",
            flush=True,
        )


if __name__ == "__main__":
    main()
