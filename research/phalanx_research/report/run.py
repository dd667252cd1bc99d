"""What the page shows of one run; parts that a run does not have stay empty."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

Figure = float | int | str | None


@dataclass(frozen=True, kw_only=True)
class Curve:
    """Points of a line, of equal number in both directions."""

    x: Sequence[float]
    y: Sequence[float]


@dataclass(frozen=True, kw_only=True)
class HeatNode:
    """One node of the heat map: percent in use of each of its devices."""

    name: str
    model: str
    used_pct: Sequence[float]


@dataclass(frozen=True, kw_only=True)
class ReportRun:
    """One run, under a name that no other run of the page has.

    `figures` fills a column of the table, by row name; `queues` has a row a queue, by column name.
    `curves` holds the lines by the plot they belong to: "allocation" and "fragmentation" (percent
    of the GPUs over the percentage asked for), "over_time" and "fragmented" (percent of the GPUs
    over seconds), "waiting" (jobs over seconds). `jct_s`: job completion times.
    """

    name: str
    figures: Mapping[str, Figure]
    curves: Mapping[str, Curve] = field(default_factory=dict)
    queues: Sequence[Mapping[str, Figure]] = ()
    jct_s: Sequence[float] = ()
    heat: Sequence[HeatNode] = ()
