"""What a metric is, and how its numbers travel between processes."""

from __future__ import annotations

from functools import partial
from typing import Final

import msgspec

from phalanx.model.raw_bytes import encoded

COUNTER: Final = "counter"
GAUGE: Final = "gauge"
HISTOGRAM: Final = "histogram"

MOST_SETS = 1_000
"""So many sets of label values one metric has in one process; what comes later is OTHER."""
OTHER: Final = "_other"


class Definition(msgspec.Struct, array_like=True, frozen=True):
    """A metric, but for its name. `bounds`: of a histogram, in rising order. `most`: so many sets
    of label values are told apart."""

    kind: str
    help: str
    labels: tuple[str, ...] = ()
    bounds: tuple[float, ...] = ()
    most: int = MOST_SETS


class Sample(msgspec.Struct, array_like=True, gc=False):
    """The number of one set of label values, in the order of the definition's labels. Of a
    histogram `value` is the sum of what was observed, and `counts` says how much of that was up to
    each bound and not up to the one before; the last one, how much was above all."""

    labels: tuple[str, ...]
    value: float
    counts: list[float] | None = None


class Numbers(msgspec.Struct, array_like=True):
    """What is known of one metric. `definition`: of one that a program made; the others are known
    to all (`catalogue`)."""

    name: str
    samples: list[Sample]
    definition: Definition | None = None


_encode = partial(encoded, msgspec.msgpack.Encoder().encode)
_decode = msgspec.msgpack.Decoder(list[Numbers]).decode


def encode_numbers(numbers: list[Numbers]) -> bytes:
    """As they travel, and are kept by who does not read them."""
    return _encode(numbers)


def decode_numbers(data: bytes) -> list[Numbers]:
    """Numbers again; none for bytes that are none."""
    try:
        return _decode(data)
    except msgspec.MsgspecError:
        return []


def fits(definition: Definition, sample: Sample) -> bool:
    """Whether a sample may be one of such a metric."""
    counts = len(definition.bounds) + 1 if definition.kind == HISTOGRAM else 0
    return len(sample.labels) == len(definition.labels) and len(sample.counts or ()) == counts
