"""Compares the output of shell lines between a Slurm cluster and a Phalanx cluster."""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from phalanx_benchmarks.beside.command_cases import MENDED, OK, REFUSED, Case
from phalanx_benchmarks.beside.phalanx_cluster import PhalanxCluster
from phalanx_benchmarks.beside.rows import Row, kind_of
from phalanx_benchmarks.beside.slurm_cluster import SlurmCluster

_NUMBER = "@@number "
_OVER = """over() {
  for one in "$@"; do while squeue -h -j $one 2>/dev/null | grep -q .; do sleep 1; done; done
}
"""
"""The shell function `over`, which waits until the given jobs have left the queue."""
_NAMES = [
    (re.compile(r"\b(127\.0\.0\.1|n[1-9]|vm|localhost)\b"), "HOST"),
    (re.compile(r"\b(default|primary)\b"), "default"),
    (re.compile(r"\b202[0-9]-[0-9]{2}-[0-9]{2}T[0-9:]{8}"), "TIME"),
    (re.compile(r"/tmp/bc-[a-z0-9_]+"), "HERE"),
]
"""The texts that always differ between the clusters: names of hosts and of the partition, moments,
and directories.
"""


def compare(
    real: SlurmCluster,
    ours: PhalanxCluster,
    cases: Sequence[Case],
    directories: Mapping[str, Path] | None = None,
) -> Iterator[Row]:
    """Yield a row for each case. Both clusters run a case's line at the same time.

    `directories`: the directory that {NAME} stands for in lines, by name.
    """
    known = {"here": Path(__file__).parent, **(directories or {})}
    with ThreadPoolExecutor(2) as pool:
        for case in cases:
            line = case.line
            for name, path in known.items():
                line = line.replace(f"{{{name}}}", str(path))
            lines = [_line_for(side, line) for side in (real, ours)]
            theirs, mine = pool.map(printed, (real, ours), lines)
            is_refused = case.known.startswith(REFUSED)
            why = "" if case.known in (OK, MENDED) else case.known.removeprefix(REFUSED)
            kind = kind_of(
                theirs, mine, mended=case.known == MENDED, why=why, is_refused=is_refused
            )
            yield Row(case.key, kind, theirs, mine, why)


def _line_for(side: SlurmCluster | PhalanxCluster, line: str) -> str:
    """Add the options that depend on the side and its size to a line."""
    is_slurm = isinstance(side, SlurmCluster)
    wide = f"-N{len(side.nodes)} --ntasks-per-node={side.cpus}"
    words = {
        "{wide}": wide,
        "{nodes}": str(len(side.nodes)),
        "{high}": "-p high" if is_slurm else "--priority=100",
    }
    for word, options in words.items():
        line = line.replace(word, options)
    return line


def printed(side: SlurmCluster | PhalanxCluster, line: str) -> str:
    """Run a line, and return its output with common names in place of the side's own names."""
    with tempfile.TemporaryDirectory(prefix="bc-", dir="/tmp") as directory:
        try:
            done = side.run(f'{_OVER}{line}\necho "{_NUMBER}$n"', directory)
        except subprocess.TimeoutExpired:
            return "it never ends"
    text, _, number = done.stdout.rpartition(_NUMBER)
    if number.strip():
        text = re.sub(rf"\b{number.strip()}(?=\b|_)", "N", text)
    for pattern, name in _NAMES:
        text = pattern.sub(name, text)
    return text.rstrip("\n")
