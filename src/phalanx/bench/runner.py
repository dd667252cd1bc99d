"""Each row in a fresh process for each side in turn, so that no row feels the one before it."""

from __future__ import annotations

import json
import os
import signal
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from phalanx.bench.measure import EFFORTS
from phalanx.bench.row import Row

RAY_PYTHON = "PHALANX_BENCH_RAY_PYTHON"


class PeerMissing(Exception):
    """The peer cannot be run here; the text says what to install."""


@dataclass(frozen=True, kw_only=True)
class Side:
    """A module under test: its name, its version, and the command that measures one row of it."""

    name: str
    version: str
    command: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """The samples of one row on one side, or why there are none."""

    samples: tuple[float, ...] = ()
    error: str | None = None

    @property
    def median(self) -> float | None:
        return statistics.median(self.samples) if self.samples else None


@dataclass(frozen=True, kw_only=True)
class Result:
    """One row with what each side made of it; `peer` is None where only Phalanx was measured."""

    row: Row
    phalanx: Outcome
    peer: Outcome | None

    @property
    def ratio(self) -> float | None:
        """How many times better than the peer: above one is better, whatever the unit."""
        ours = self.phalanx.median
        theirs = self.peer.median if self.peer else None
        if not ours or not theirs:
            return None
        return ours / theirs if self.row.more_is_better else theirs / ours


def phalanx_side() -> Side:
    """Phalanx in this interpreter."""
    from importlib.metadata import version

    return Side(
        name="phalanx",
        version=version("phalanx"),
        command=(sys.executable, "-m", "phalanx.bench.side"),
    )


def ray_side() -> Side:
    """Ray in the Python that `PHALANX_BENCH_RAY_PYTHON` names, else in this one.

    Raises PeerMissing when that Python cannot import ray.
    """
    python = os.environ.get(RAY_PYTHON) or sys.executable
    try:
        check = subprocess.run(
            [python, "-c", "import numpy, psutil, ray; print(ray.__version__)"],
            capture_output=True,
            text=True,
            check=False,
        )
    except OSError as error:
        raise PeerMissing(
            f"{RAY_PYTHON} is {python!r}, which cannot be started ({error.strerror}); "
            "it must be the path of a Python interpreter."
        ) from error
    if check.returncode != 0:
        reason = (check.stderr.strip().splitlines() or ["no reason given"])[-1]
        raise PeerMissing(
            f"--peer ray needs Ray, and {python} cannot import it ({reason}): install it with "
            f"`pip install phalanx[bench]`, or set {RAY_PYTHON} to the Python of another "
            "environment that has ray, numpy and psutil."
        )
    return Side(
        name="ray",
        version=check.stdout.strip().splitlines()[-1],
        command=(python, str(Path(__file__).with_name("peer_ray.py"))),
    )


def measure(side: Side, row: Row, effort_name: str) -> Outcome:
    """The row in a fresh process of that side, ended with everything it started if it hangs."""
    limit_s = 120 + 4 * EFFORTS[effort_name].limit_s
    with subprocess.Popen(
        [*side.command, row.name, effort_name],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env={**os.environ, "PHALANX_ADDRESS": "local"},  # not a cluster that happens to run here
    ) as process:
        try:
            out, err = process.communicate(timeout=limit_s)
        except subprocess.TimeoutExpired:
            return Outcome(error=f"no result within {limit_s:.0f} s")
        finally:
            _end_session(process.pid)
    for line in out.splitlines():
        if line.startswith("{"):
            answer = json.loads(line)
            return Outcome(samples=tuple(answer.get("samples", ())), error=answer.get("error"))
    tail = "\n".join(err.splitlines()[-20:])
    return Outcome(error=f"the process ended with code {process.returncode}\n{tail}")


def _end_session(leader: int) -> None:
    try:
        os.killpg(leader, signal.SIGKILL)
    except ProcessLookupError:
        return


def compare(
    rows: Iterable[Row],
    *,
    ours: Side,
    peer: Side | None,
    effort_name: str,
    run: Callable[[Side, Row, str], Outcome] = measure,
) -> Iterator[Result]:
    """Ours, then the peer's, row by row: both see the same machine at nearly the same time."""
    for row in rows:
        own = run(ours, row, effort_name)
        other = run(peer, row, effort_name) if peer and row.peer else None
        yield Result(row=row, phalanx=own, peer=other)
