"""Requests for numbers over time, which curves are drawn from."""

from __future__ import annotations

from typing import ClassVar

import msgspec

from phalanx.model.rights import Verb
from phalanx.observe.series import Told
from phalanx.protocol.requests.request import EVERYBODY, Effect, Request, Role


class NumberOverTime(msgspec.Struct, array_like=True):
    """A quantity over time, with its new points. Its name is a pair, such as ("allocated", "GPU"),
    ("used", "GPU"), ("total", "GPU"), ("jobs", "running"), ("queue NAME", "GPU"). The points are by
    resolution (`observe.series.RESOLUTIONS`).
    """

    what: str
    of: str
    points: Told


class SeriesNews(msgspec.Struct, array_like=True):
    """The head's numbers over time that are new."""

    at: float
    """The head's time, in seconds since the epoch: the next request's `after`."""
    numbers: list[NumberOverTime]


class GetSeries(Request[SeriesNews]):
    """Return numbers over time: changes since `after`, by the head's clock; 0: all."""

    kind: ClassVar[int] = 39
    verb: ClassVar[Verb] = Verb.SEE
    effect: ClassVar[Effect] = Effect.READS
    asked_by: ClassVar[tuple[Role, ...]] = EVERYBODY

    after: float = 0.0
