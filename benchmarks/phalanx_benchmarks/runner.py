"""Measures each row in new processes, on all sides alternately, in a different order in each round.
So no row affects the next row, and no side gets the machine's better moments.
"""

from __future__ import annotations

import json
import os
import signal
import statistics
import subprocess
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from phalanx_benchmarks.measure import EFFORTS
from phalanx_benchmarks.row import Row
from phalanx_benchmarks.sides import Side


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """The result of one row on one side: the samples, with a tuple for each round, or the error if
    the row failed.
    """

    rounds: tuple[tuple[float, ...], ...] = ()
    error: str | None = None

    @property
    def samples(self) -> tuple[float, ...]:
        """The samples of all rounds together."""
        return tuple(sample for samples in self.rounds for sample in samples)

    @property
    def median(self) -> float | None:
        """The median of all samples."""
        return statistics.median(self.samples) if self.samples else None

    @property
    def spread(self) -> float | None:
        """Half the distance between the quartiles of the samples, as a fraction of the median. None
        if there are fewer than four samples, or if the median is 0.
        """
        if len(self.samples) < 4 or not self.median:
            return None
        low, _, high = statistics.quantiles(self.samples, n=4)
        return (high - low) / 2 / self.median


@dataclass(frozen=True, kw_only=True)
class Ratio:
    """How many times better Phalanx is than a peer at a row. A ratio above one means that Phalanx
    is better, also for units of time. `low` and `high` are the ratios of the worst and the best
    round.
    """

    median: float
    low: float
    high: float


@dataclass(frozen=True, kw_only=True)
class Result:
    """One row with the outcome of each side. The peers' outcomes are found by the peers' names."""

    row: Row
    phalanx: Outcome
    peers: Mapping[str, Outcome] = field(default_factory=dict)

    def ratio(self, peer: str) -> Ratio | None:
        """Return the ratio to this peer, over the rounds that both sides measured."""
        theirs = self.peers.get(peer)
        if theirs is None:
            return None
        ratios = []
        for own, other in zip(self.phalanx.rounds, theirs.rounds, strict=False):
            a, b = statistics.median(own), statistics.median(other)
            if a and b:
                ratios.append(a / b if self.row.more_is_better else b / a)
        if not ratios:
            return None
        return Ratio(median=statistics.median(ratios), low=min(ratios), high=max(ratios))


def measure(side: Side, row: Row, effort_name: str) -> Outcome:
    """Measure the row in a new process of that side.

    A process that hangs is ended, together with all processes that it started.
    """
    limit_s = 120 + 4 * EFFORTS[effort_name].limit_s
    with subprocess.Popen(
        [*side.command, row.name, effort_name],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env=_environment(side),
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
            if "error" in answer:
                return Outcome(error=answer["error"])
            return Outcome(rounds=(tuple(answer["samples"]),))
    tail = "\n".join(err.splitlines()[-20:])
    return Outcome(error=f"the process ended with code {process.returncode}\n{tail}")


def _environment(side: Side) -> dict[str, str]:
    """Return the environment of a side's process.

    The process ignores clusters that run on this machine. It finds the programs next to the side's
    Python, because Parsl starts some of them.
    """
    path = os.pathsep.join([os.path.dirname(side.command[0]), os.environ.get("PATH", os.defpath)])
    return {**os.environ, "PHALANX_ADDRESS": "local", "PATH": path}


def _end_session(leader: int) -> None:
    try:
        os.killpg(leader, signal.SIGKILL)
    except ProcessLookupError:
        return


def compare(
    rows: Iterable[Row],
    *,
    ours: Side,
    peers: Sequence[Side] = (),
    effort_name: str,
    run: Callable[[Side, Row, str], Outcome] = measure,
) -> Iterator[Result]:
    """Measure row by row on all sides, so that all sides use the machine at nearly the same time. A
    side that has failed at a row does not measure it again.
    """
    for row in rows:
        sides = [side for side in (ours, *peers) if side.can(row)]
        found = {side.name: Outcome() for side in sides}
        rounds = EFFORTS[effort_name].rounds
        for number in range(min(rounds, row.most_rounds or rounds)):
            turn = number % len(sides)
            for side in sides[turn:] + sides[:turn]:
                before = found[side.name]
                if before.error is None:
                    now = run(side, row, effort_name)
                    found[side.name] = (
                        now if now.error else Outcome(rounds=(*before.rounds, *now.rounds))
                    )
        own = found.pop(ours.name)
        yield Result(row=row, phalanx=own, peers=found)
