"""Counts that pages have in common, and how numbers over time are drawn."""

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
    """How much of something is allocated."""

    name: str
    used: float
    total: float

    @property
    def percent(self) -> float:
        """Of the total."""
        return 100 * self.used / self.total if self.total else 0.0

    @property
    def words(self) -> str:
        """As people write it."""
        return f"{written(self.name, self.used)} of {written(self.name, self.total)}"


def written(resource: str, value: float) -> str:
    """An amount of a resource."""
    return size(value) if resource in _BYTES else amount(value)


def amounts_text(amounts: Mapping[str, float]) -> str:
    """Several amounts."""
    return ", ".join(f"{written(name, value)} {name}" for name, value in sorted(amounts.items()))


def gauges(picture: SessionView) -> list[Gauge]:
    """The main resources that the cluster has, and what is allocated of them."""
    found = sums(picture.status.nodes)
    return [
        Gauge(name=name, used=found[name][0], total=found[name][1])
        for name in MAIN
        if name in found and found[name][1]
    ]


def jobs_by_state(jobs: Iterable[JobInfo]) -> dict[str, int]:
    """How many are in each state, in the order in which jobs pass through them."""
    counts = Counter(job.state for job in jobs)
    return {state: counts[state] for state in st.JOB if counts[state]}


class Curve(msgspec.Struct, frozen=True, kw_only=True):
    """A number over time, for a drawing: points (seconds before now, value), oldest first."""

    name: str
    points: list[tuple[float, float]]
    top: float
    """The largest value that there can be, or that there was."""


SPANS_S = {"15m": 900.0, "24h": 86_400.0, "30d": 2_592_000.0}


def curve(
    series: Mapping[tuple[str, str], Series], key: tuple[str, str], now: float, span_s: float
) -> Curve:
    """A number over the last `span_s` seconds."""
    kept = series.get(key)
    points = [] if kept is None else kept.since(now - span_s, now)
    tops = [] if (of := series.get(("total", key[1]))) is None else of.since(now - span_s, now)
    top = max([point.mean for point in (*points, *tops)], default=1.0)
    shown = [(round(now - point.at, 1), round(point.mean, 3)) for point in points]
    return Curve(name=key[1], points=shown, top=top or 1.0)
