"""Defines rows of the benchmark: their names, their units, and how to take samples."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from phalanx_benchmarks.measure import Effort, rates

Api = Any
"""The module under test: `phalanx` or `ray`, which have the same names. For a row of the group
POOLS it is a function that creates a pool (`pools/pool.py`), and for one of ACTORS a function that
creates an actor (`actor_systems/actor_system.py`).
"""

Build = Callable[[Api], Callable[[], object]]
"""A function that prepares a session for a row, and returns the call to repeat."""

MICROBENCHMARK = "microbenchmark"
"""The group of the rows of Ray's own microbenchmark."""
PROGRAMS = "programs"
"""The group of rows of common work that is not in the microbenchmark."""
POOLS = "pools"
"""The group of rows of work that every pool of processes can do."""
ACTORS = "actor systems"
"""The group of rows of work that every system of actors can do."""
RELEASE = "release"
"""The group of rows of Ray's release benchmarks, at the size of one machine."""
FLOOR = "floor"
"""The group of rows of plain work that uses no engine."""


@dataclass(frozen=True, kw_only=True)
class Row:
    """One line of the table. `sample(api, effort)` returns the samples, in `unit`. `session`:
    whether a session with the options `init` is started first. `peers`: whether the row also runs
    on systems other than Phalanx. `floors` names rows of plain work with which this row is
    compared. `aside`, if not empty, is the reason why the row is in no mean: the sides do different
    work, or another row measures the same. `most_rounds` limits the rounds of rows that take long.
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
    """Return a row that repeats a call of `per_call` units. `warm_up_calls` is the smallest number
    of calls in the warm-up, for rows that reach a steady speed late.
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
    """Return a row of RELEASE, with the seconds of a single run, because a run takes long."""
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
