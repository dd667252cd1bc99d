"""Requests for numbers over time, from which pages draw curves."""

from __future__ import annotations

from typing import ClassVar

import msgspec

from phalanx.model.rights import Verb
from phalanx.observe.series import SeriesPoints
from phalanx.protocol.requests.request import EVERYBODY, Effect, Request, Role


class NumberOverTime(msgspec.Struct, array_like=True):
    """The new points of a quantity over time, by resolution (`observe.series.RESOLUTIONS`).

    The quantity's name is a pair, such as ("allocated", "GPU"), ("used", "GPU"), ("total", "GPU"),
    ("jobs", "running") or ("queue NAME", "GPU").
    """

    what: str
    of: str
    points: SeriesPoints


class SeriesNews(msgspec.Struct, array_like=True):
    """The new points of the head's numbers over time."""

    at: float
    """The head's time in seconds since the epoch, to be sent as `after` with the next request."""
    numbers: list[NumberOverTime]


class GetSeries(Request[SeriesNews]):
    """Return the points of numbers over time that are later than `after` by the head's clock; all
    points if `after` is 0.
    """

    kind: ClassVar[int] = 39
    verb: ClassVar[Verb] = Verb.SEE
    effect: ClassVar[Effect] = Effect.READS
    asked_by: ClassVar[tuple[Role, ...]] = EVERYBODY

    after: float = 0.0
