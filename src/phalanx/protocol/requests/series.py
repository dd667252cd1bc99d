"""Numbers over time, for who draws them."""

from __future__ import annotations

from typing import ClassVar

import msgspec

from phalanx.observe.series import Told
from phalanx.protocol.requests.request import EVERYBODY, Effect, Request, Role


class NumberOverTime(msgspec.Struct, array_like=True):
    """What is counted and of what: ("allocated", "GPU"), ("total", "GPU"), ("jobs", "running"),
    ("queue NAME", "GPU"); and its points that are new, by resolution
    (`observe.series.RESOLUTIONS`)."""

    what: str
    of: str
    points: Told


class SeriesNews(msgspec.Struct, array_like=True):
    """What the head has counted."""

    at: float
    """Its time, in seconds since the epoch: what to ask for `after` next."""
    numbers: list[NumberOverTime]


class GetSeries(Request[SeriesNews]):
    """Numbers over time: what may be another than at the time `after`, by the head's clock; 0 for
    all."""

    kind: ClassVar[int] = 39
    effect: ClassVar[Effect] = Effect.READS
    asked_by: ClassVar[tuple[Role, ...]] = EVERYBODY

    after: float = 0.0
