"""The definition of a metric, and the numbers of a metric as they travel between processes."""

from __future__ import annotations

from functools import partial
from typing import Final

import msgspec

from phalanx.model.raw_bytes import encoded

COUNTER: Final = "counter"
GAUGE: Final = "gauge"
HISTOGRAM: Final = "histogram"

MOST_SETS = 1_000
"""The largest number of sets of label values of one metric in one process. Further sets are counted
as OTHER.
"""
OTHER: Final = "_other"


class Definition(msgspec.Struct, array_like=True, frozen=True):
    """The definition of a metric, without its name.

    `bounds`: the bounds of a histogram, in ascending order. `most`: the largest number of sets of
    label values that are counted separately.
    """

    kind: str
    help: str
    labels: tuple[str, ...] = ()
    bounds: tuple[float, ...] = ()
    most: int = MOST_SETS


class Sample(msgspec.Struct, array_like=True, gc=False):
    """The number for one set of label values, which are in the order of the definition's labels.

    For a histogram, `value` is the sum of the observed values. `counts` has, for each bound, the
    number of values up to this bound and above the previous one; the last count is for values above
    all bounds.
    """

    labels: tuple[str, ...]
    value: float
    counts: list[float] | None = None


class Numbers(msgspec.Struct, array_like=True):
    """The numbers of one metric. `definition` is set only for a metric that a program defined. The
    definitions of Phalanx's own metrics are in `catalogue`.
    """

    name: str
    samples: list[Sample]
    definition: Definition | None = None


_encode = partial(encoded, msgspec.msgpack.Encoder().encode)
_decode = msgspec.msgpack.Decoder(list[Numbers]).decode


def encode_numbers(numbers: list[Numbers]) -> bytes:
    """Return numbers as bytes. A process that only passes numbers on does not decode them."""
    return _encode(numbers)


def decode_numbers(data: bytes) -> list[Numbers]:
    """Return the numbers in these bytes, as `encode_numbers` encoded them; none for invalid
    bytes.
    """
    try:
        return _decode(data)
    except msgspec.MsgspecError:
        return []


def fits(definition: Definition, sample: Sample) -> bool:
    """Whether a sample may belong to a metric with this definition."""
    counts = len(definition.bounds) + 1 if definition.kind == HISTOGRAM else 0
    return len(sample.labels) == len(definition.labels) and len(sample.counts or ()) == counts
