"""The data of one run for the page. Missing parts are empty."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

Figure = float | int | str | None


@dataclass(frozen=True, kw_only=True)
class Curve:
    """The points of a line, as equally long sequences of x and y."""

    x: Sequence[float]
    y: Sequence[float]


@dataclass(frozen=True, kw_only=True)
class HeatNode:
    """One node of the heat map, with the percentage in use of each of its devices."""

    name: str
    model: str
    used_pct: Sequence[float]


@dataclass(frozen=True, kw_only=True)
class ReportRun:
    """One run, with a name that no other run on the page has.

    `figures` has the values of a column of the table, by row name. `queues` has a row for each
    queue, by column name. `curves` has the lines, by the name of their plot: "allocation" and
    "fragmentation" (percentage of the GPUs over the percentage requested), "over_time" and
    "fragmented" (percentage of the GPUs over seconds), "waiting" (jobs over seconds). `jct_s`: job
    completion times.
    """

    name: str
    figures: Mapping[str, Figure]
    curves: Mapping[str, Curve] = field(default_factory=dict)
    queues: Sequence[Mapping[str, Figure]] = ()
    jct_s: Sequence[float] = ()
    heat: Sequence[HeatNode] = ()
