"""Systems with an interface in Python: HyperQueue, Dask, Parsl and Ray. A case has a Python program
for each side, and the outputs of both are compared. `hyperqueue.txt`, `dask.txt`, `parsl.txt` and
`ray.txt` have the cases.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Generator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from phalanx_benchmarks.beside.command_cases import MENDED, OK, REFUSED
from phalanx_benchmarks.beside.packages import environment
from phalanx_benchmarks.beside.phalanx_cluster import PhalanxCluster
from phalanx_benchmarks.beside.processes import PATIENCE_S
from phalanx_benchmarks.beside.rows import Row, kind_of

_DRIVER = Path(__file__).with_name("driver.py")
_OPENING = "opening"
"""The key of the block with the opening: the programs that both sides run once, before the
cases.
"""


class System(NamedTuple):
    """A system that a Python program can start and use."""

    packages: tuple[str, ...]
    """The packages, with versions, for pip. The system has an environment of its own."""
    cases: Path


SYSTEMS = {
    "hyperqueue": System(("hyperqueue==0.27.0",), Path(__file__).with_name("hyperqueue.txt")),
    "dask": System(("distributed==2026.8.0",), Path(__file__).with_name("dask.txt")),
    "parsl": System(("parsl==2026.10.26",), Path(__file__).with_name("parsl.txt")),
    "ray": System(("ray==2.60.0",), Path(__file__).with_name("ray.txt")),
}


class ProgramCase(NamedTuple):
    """A program for each side. `known` is OK, MENDED, or the reason why the two sides differ."""

    key: str
    known: str
    theirs: str
    ours: str


def read_programs(text: str) -> list[ProgramCase]:
    """Return the blocks of a file of programs. The first block is the opening, which both sides run
    once before the cases. Raises ValueError for a block without two programs or without the field
    `known`.
    """
    blocks = []
    for block in f"\n{text}".split("\n=== ")[1:]:
        heading, _, rest = block.partition("\n--- ")
        key, _, known = heading.partition("\n= ")
        if rest.startswith("both\n"):
            theirs = ours = rest.removeprefix("both\n")
        else:
            theirs, _, ours = rest.removeprefix("theirs\n").partition("\n--- ours\n")
        if not (theirs.strip() and ours.strip() and (known or key == _OPENING)):
            raise ValueError(f"{key}: a block has one answer and two programs")
        blocks.append(ProgramCase(key, known, theirs, ours))
    if not blocks or blocks[0].key != _OPENING:
        raise ValueError("the first block is the opening")
    return blocks


def compare(system: System, folder: Path) -> Generator[Row, None, None]:
    """Yield a row for each case. Both sides run a case's program at the same time."""
    opening, *cases = read_programs(system.cases.read_text())
    python = environment(system.packages, folder / "venv")
    with PhalanxCluster(nodes=1) as cluster, ThreadPoolExecutor(2) as pool:
        sides = (
            _Side(str(python), opening.theirs, os.environ),
            _Side(sys.executable, opening.ours, cluster.env),
        )
        try:
            for case in cases:
                theirs, ours = pool.map(_Side.printed, sides, (case.theirs, case.ours))
                yield _row(case, theirs, ours)
        finally:
            for side in sides:
                side.close()


def _row(case: ProgramCase, theirs: str, ours: str) -> Row:
    is_refused = case.known.startswith(REFUSED)
    why = "" if case.known in (OK, MENDED) else case.known.removeprefix(REFUSED)
    kind = kind_of(theirs, ours, mended=case.known == MENDED, why=why, is_refused=is_refused)
    return Row(case.key, kind, theirs, ours, why)


class _Side:
    """A process that runs one side's programs, after the side's opening."""

    def __init__(self, python: str, opening: str, env: Mapping[str, str]) -> None:
        self._errors = tempfile.TemporaryFile("w+")  # noqa: SIM115 - it lives as long as the process
        self._process = subprocess.Popen(
            [python, str(_DRIVER)], text=True, env=dict(env), start_new_session=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors,
        )  # fmt: skip
        self.printed(opening)

    def printed(self, program: str) -> str:
        """Run a program, and return its output. Raises RuntimeError if the process ends. A process
        that does not answer in time is ended.
        """
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps(program) + "\n")
        self._process.stdin.flush()
        too_long = threading.Timer(PATIENCE_S, self._process.kill)
        too_long.start()
        line = self._process.stdout.readline()
        too_long.cancel()
        if not line:
            self._errors.seek(0)
            raise RuntimeError(f"no answer to {program}: {self._errors.read()[-2000:]}")
        return str(json.loads(line)).rstrip("\n")

    def close(self) -> None:
        """End the process. It first ends what its opening has started."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
