"""The definition of a row of the benchmark: a name, a unit, and how to take its samples."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from phalanx_benchmarks.measure import Effort, rates

Api = Any
"""The module under test: `phalanx` or `ray`, which have the same names.

A row of the group POOLS gets a function instead, which creates a pool (`pools/pool.py`).
"""

Build = Callable[[Api], Callable[[], object]]
"""A function that prepares a running session and returns the call to repeat."""

MICROBENCHMARK = "microbenchmark"
"""The group of the rows of Ray's own microbenchmark."""
PROGRAMS = "programs"
"""The group of rows of common work that is not in the microbenchmark."""
POOLS = "pools"
"""The group of rows of work that every pool of processes can do."""
RELEASE = "release"
"""The group of rows of Ray's release benchmarks, at the size of one machine."""
FLOOR = "floor"
"""The group of rows of plain work that uses no engine."""


@dataclass(frozen=True, kw_only=True)
class Row:
    """One line of the table.

    `sample(api, effort)` returns the samples, in `unit`. `session`: whether a session with the
    options `init` is started first. `peers`: whether the row runs on systems other than Phalanx.
    `floors` names rows of plain work with which to compare this row. `aside`, if not empty, is the
    reason why no mean includes the row: the two sides do different things, or another row measures
    the same. `most_rounds` limits the rounds of rows that take long.
    """

    name: str
    unit: str
    sample: Callable[[Api, Effort], list[float]]
    group: str
    session: bool = True
    init: Mapping[str, Any] = field(default_factory=dict)
    peers: bool = True
    more_is_better: bool = True
    floors: tuple[str, ...] = ()
    aside: str = ""
    most_rounds: int | None = None


def start(api: Api, **options: Any) -> None:
    """Start a session with the same options on all sides: all CPUs of the machine, and no
    dashboard.
    """
    api.init(num_cpus=os.cpu_count(), include_dashboard=False, **options)


def loop(
    name: str,
    build: Build,
    *,
    per_call: float = 1,
    unit: str = "/s",
    group: str = MICROBENCHMARK,
    init: Mapping[str, Any] | None = None,
    floors: tuple[str, ...] = (),
    warm_up_calls: int = 1,
    aside: str = "",
) -> Row:
    """Return a row that repeats a call of `per_call` units.

    `warm_up_calls` is the least number of calls in the warm-up, for rows whose speed becomes steady
    late.
    """

    def sample(api: Api, effort: Effort) -> list[float]:
        return rates(build(api), per_call=per_call, effort=effort, warm_up_calls=warm_up_calls)

    return Row(
        name=name,
        unit=unit,
        sample=sample,
        group=group,
        init=init or {},
        floors=floors,
        aside=aside,
    )


def release(
    name: str,
    sample: Callable[[Api, Effort], list[float]],
    *,
    session: bool = True,
    init: Mapping[str, Any] | None = None,
) -> Row:
    """Return a row of RELEASE: the seconds of a single run, because a run takes long."""
    return Row(
        name=name,
        unit="s",
        sample=sample,
        group=RELEASE,
        session=session,
        init=init or {},
        more_is_better=False,
        most_rounds=3,
    )
