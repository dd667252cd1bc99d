"""`ray.util.metrics`: `phalanx.util.metrics`, exported under Ray's names (`ray_NAME`).

What Ray would take and we cannot export is a warning here, so that no program ends over it.
"""

from __future__ import annotations

from typing import ClassVar

from phalanx.util import metrics
from phalanx.util.metrics import Metric as Metric  # noqa: PLC0414 -- Ray's programs read it here

PREFIX = "ray_"


class Counter(metrics.Counter):
    """See `phalanx.util.metrics`."""

    prefix: ClassVar[str] = PREFIX
    is_strict: ClassVar[bool] = False


class Gauge(metrics.Gauge):
    """See `phalanx.util.metrics`."""

    prefix: ClassVar[str] = PREFIX
    is_strict: ClassVar[bool] = False


class Histogram(metrics.Histogram):
    """See `phalanx.util.metrics`."""

    prefix: ClassVar[str] = PREFIX
    is_strict: ClassVar[bool] = False
