"""Counts and curves that several pages show."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

import msgspec

from phalanx.dashboard.watch import ClusterSnapshot
from phalanx.model.jobs import states as st
from phalanx.model.readable import amount, size
from phalanx.model.rows.work import JobInfo
from phalanx.observe.series import Series
from phalanx.observe.usage import MAIN, sums

_BYTES = frozenset({"memory", "object_store_memory"})


class Gauge(msgspec.Struct, frozen=True, kw_only=True):
    """The total and the allocated amount of one resource of the cluster or of a node."""

    name: str
    used: float
    total: float

    @property
    def percent(self) -> float:
        """The allocated part of the total, in percent."""
        return 100 * self.used / self.total if self.total else 0.0

    @property
    def words(self) -> str:
        return f"{written(self.name, self.used)} of {written(self.name, self.total)}"


def written(resource: str, value: float) -> str:
    """Return an amount of a resource as text."""
    return size(value) if resource in _BYTES else amount(value)


def rounded(resource: str, value: float) -> str:
    """Return an amount of a resource as text, for means over time: from 100 on without decimals,
    and below 100 with three digits.
    """
    if resource in _BYTES:
        return size(value)
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def amounts_text(amounts: Mapping[str, float]) -> str:
    """Return amounts of several resources as text."""
    return ", ".join(f"{written(name, value)} {name}" for name, value in sorted(amounts.items()))


def gauges(snapshot: ClusterSnapshot) -> list[Gauge]:
    """Return the total and allocated amounts of the cluster's main resources."""
    found = sums(snapshot.status.nodes)
    return [
        Gauge(name=name, used=found[name][0], total=found[name][1])
        for name in MAIN
        if name in found and found[name][1]
    ]


def jobs_by_state(jobs: Iterable[JobInfo]) -> dict[str, int]:
    """Return the number of jobs by state. States are in the order in which jobs pass through
    them.
    """
    counts = Counter(job.state for job in jobs)
    return {state: counts[state] for state in st.JOB if counts[state]}


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """A number over time. `points`: (seconds before now, value), oldest first."""

    name: str
    kind: str
    """The kind of the line, which decides its look: total, at-most, deserved, allocated, used,
    running or waiting.
    """
    points: list[tuple[float, float]]


class Chart(msgspec.Struct, frozen=True, kw_only=True):
    """Lines over the last `span_s` seconds before `at`, on one scale from 0 to `top`."""

    name: str
    unit: str
    """The resource whose amounts are drawn; empty for a count."""
    lines: list[Line]
    top: float
    at: float
    span_s: float


ROOM = 1.06
"""The height of a drawing, as a multiple of its highest value."""
SPANS_S = {"15m": 900.0, "24h": 86_400.0, "30d": 2_592_000.0}


def chart(
    series: Mapping[tuple[str, str], Series],
    name: str,
    keys: Mapping[str, tuple[str, str]],
    now: float,
    span_s: float,
) -> Chart:
    """Return the chart of a number over the last `span_s` seconds. `keys`: the key of each line, by
    its kind.
    """
    lines = []
    for kind, key in keys.items():
        kept = series.get(key)
        points = [] if kept is None else kept.since(now - span_s, now)
        shown = [(round(now - point.at, 1), round(point.mean, 3)) for point in points]
        if shown:
            lines.append(Line(name=kind, kind=kind, points=shown))
    top = max((value for line in lines for _, value in line.points), default=0.0)
    unit = next(iter(keys.values()))[1] if name in MAIN else ""
    return Chart(name=name, unit=unit, lines=lines, top=top * ROOM or 1.0, at=now, span_s=span_s)
