"""`ray.util.metrics`: `phalanx.util.metrics`, exported under Ray's names (`ray_NAME`).

A value that Ray accepts and Phalanx cannot export causes only a warning, so that the program goes
on.
"""

from __future__ import annotations

from typing import ClassVar

from phalanx.util import metrics
from phalanx.util.metrics import Metric as Metric  # noqa: PLC0414 -- Ray's programs read it here

PREFIX = "ray_"


class Counter(metrics.Counter):
    """A Counter of `phalanx.util.metrics` that warns instead of raising."""

    prefix: ClassVar[str] = PREFIX
    is_strict: ClassVar[bool] = False


class Gauge(metrics.Gauge):
    """A Gauge of `phalanx.util.metrics` that warns instead of raising."""

    prefix: ClassVar[str] = PREFIX
    is_strict: ClassVar[bool] = False


class Histogram(metrics.Histogram):
    """A Histogram of `phalanx.util.metrics` that warns instead of raising."""

    prefix: ClassVar[str] = PREFIX
    is_strict: ClassVar[bool] = False
