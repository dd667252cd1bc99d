"""Counts and curves that several pages show."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

import msgspec

from phalanx.dashboard.watch import SessionView
from phalanx.model.jobs import states as st
from phalanx.model.readable import amount, size
from phalanx.model.rows.work import JobInfo
from phalanx.observe.series import Series
from phalanx.observe.usage import MAIN, sums

_BYTES = frozenset({"memory", "object_store_memory"})


class Gauge(msgspec.Struct, frozen=True, kw_only=True):
    """How much of a resource is allocated."""

    name: str
    used: float
    total: float

    @property
    def percent(self) -> float:
        """The allocated part of the total, in percent."""
        return 100 * self.used / self.total if self.total else 0.0

    @property
    def words(self) -> str:
        """The amounts as text."""
        return f"{written(self.name, self.used)} of {written(self.name, self.total)}"


def written(resource: str, value: float) -> str:
    """Return an amount of a resource as text."""
    return size(value) if resource in _BYTES else amount(value)


def amounts_text(amounts: Mapping[str, float]) -> str:
    """Return amounts of several resources as text."""
    return ", ".join(f"{written(name, value)} {name}" for name, value in sorted(amounts.items()))


def gauges(picture: SessionView) -> list[Gauge]:
    """Return the cluster's main resources with their allocated amounts."""
    found = sums(picture.status.nodes)
    return [
        Gauge(name=name, used=found[name][0], total=found[name][1])
        for name in MAIN
        if name in found and found[name][1]
    ]


def jobs_by_state(jobs: Iterable[JobInfo]) -> dict[str, int]:
    """Return the number of jobs by state, in the order in which jobs pass through states."""
    counts = Counter(job.state for job in jobs)
    return {state: counts[state] for state in st.JOB if counts[state]}


class Curve(msgspec.Struct, frozen=True, kw_only=True):
    """A number over time for a drawing. `points`: (seconds before now, value), oldest first."""

    name: str
    points: list[tuple[float, float]]
    top: float
    """The top of the drawing: the largest total or value of the span."""


SPANS_S = {"15m": 900.0, "24h": 86_400.0, "30d": 2_592_000.0}


def curve(
    series: Mapping[tuple[str, str], Series], key: tuple[str, str], now: float, span_s: float
) -> Curve:
    """Return a number over the last `span_s` seconds."""
    kept = series.get(key)
    points = [] if kept is None else kept.since(now - span_s, now)
    tops = [] if (of := series.get(("total", key[1]))) is None else of.since(now - span_s, now)
    top = max([point.mean for point in (*points, *tops)], default=1.0)
    shown = [(round(now - point.at, 1), round(point.mean, 3)) for point in points]
    return Curve(name=key[1], points=shown, top=top or 1.0)
